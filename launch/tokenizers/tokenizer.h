#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/support/text/json.h"
#include "launch/tokenizers/special_tokens.h"

namespace tessera {

/// Turns text into tokens and back. Stateless: any number of threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The kind that a specification names (tokenizer_spec.h): "byte".
  virtual std::string_view kind() const = 0;

  /// Tokens are 0 to vocab_size() - 1.
  virtual int64_t vocab_size() const = 0;

  /// The tokens of any bytes. Adds no start and no end; a special token that is written in the
  /// text, as "[MASK]", is text like any other.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  /// As encode(), but special tokens that are written in the text are themselves. Not for text that
  /// others wrote.
  virtual std::vector<int32_t> encode_with_special(std::string_view text) const;

  /// Where long text may be cut: the largest n ≤ text.size() such that, whatever follows `text`,
  /// encode() of its first n bytes and then of the rest gives the same tokens as encode() of all.
  /// 0 if there is none.
  virtual size_t last_cut(std::string_view text) const = 0;

  /// Where text in which last_cut() finds nothing is cut all the same, so that its piece does not
  /// grow without end: the same, but the word that is cut there is encoded as two.
  virtual size_t forced_cut(std::string_view text) const = 0;

  /// Invalid UTF-8 in `text`, in characters that replace it; 0 for kinds that keep any bytes.
  virtual int64_t count_invalid(std::string_view text) const = 0;

  /// The text to show for tokens; a token that stands for no text shows as nothing. Throws, naming
  /// it, on a token outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;

  /// Whether decode(a) followed by decode(b) is decode(a, b), so that tokens can be shown one by
  /// one.
  virtual bool decodes_piecewise() const = 0;

  /// What a person sees of one token by itself: printable UTF-8, as "##ing", "[MASK]" or "\x0a".
  /// Throws as decode().
  virtual std::string token_text(int32_t token) const = 0;

  /// The token that follows each document and that no text contains, where the kind has one.
  virtual std::optional<int32_t> end_of_document() const = 0;

  /// The tokens that stand for no text, where the kind has them.
  virtual SpecialTokens special() const = 0;

  /// Which tokens go on with the word of the token before them.
  virtual std::vector<bool> continues_word() const = 0;

  /// All that tokenizer_from_json() needs to make it again, the vocabulary included.
  virtual Json to_json() const = 0;

  VocabularyTraits traits() const { return {vocab_size(), special(), continues_word()}; }

 protected:
  /// Throws, naming the kind, unless `token` is in the vocabulary.
  void require_token(int32_t token) const;
};

/// The tokenizer that a specification (tokenizer_spec.h) names. Throws if there is no such kind or
/// its file can not be read.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view spec);

/// The tokenizer that to_json() described; `source` names the text in messages. Throws if `json`,
/// which may be hostile, describes none.
std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& json, const std::string& source);

}  // namespace tessera
