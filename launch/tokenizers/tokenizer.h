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

/// Neighbors of a part of a text; none at the start and at the end of the text.
struct TextNeighbors {
  bool follows_text = false;                     ///< whether other text precedes the part
  bool after_space = false;                      ///< whether that ends with white space
  std::optional<int32_t> before = std::nullopt;  ///< the added token that does
  std::optional<int32_t> after = std::nullopt;   ///< the added token that follows
};

/// Converts text to tokens and back. Stateless and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The kind in a specification (tokenizer_spec.h): "byte".
  virtual std::string_view kind() const = 0;

  /// Tokens are 0 to vocab_size() - 1.
  virtual int64_t vocab_size() const = 0;

  /// Encodes any bytes. Adds no start or end token; treats special tokens in the text, such as
  /// "[MASK]", as ordinary text.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  /// Like encode(), but special tokens in the text encode to themselves. Not for untrusted text.
  virtual std::vector<int32_t> encode_with_special(std::string_view text) const;

  /// Encodes a part of a text as encode() does, with what its neighbors change:
  /// encode_with_special() of the text has the same tokens between two added tokens, except that
  /// special tokens in the part are ordinary text. Kinds without such rules encode the part alone.
  virtual std::vector<int32_t> encode_part(std::string_view text,
                                           const TextNeighbors& neighbors) const;

  /// Finds where to cut long text: returns the largest n ≤ text.size() such that, whatever follows
  /// `text`, encoding the first n bytes and the rest separately gives the same tokens as encoding
  /// all. Returns 0 if there is none.
  virtual size_t last_cut(std::string_view text) const = 0;

  /// Returns where to cut text if last_cut() finds nothing, so that its piece stays bounded. A word
  /// cut here is encoded as two.
  virtual size_t forced_cut(std::string_view text) const = 0;

  /// Returns how many characters replace invalid UTF-8 in `text`; 0 for kinds that keep any bytes.
  virtual int64_t count_invalid(std::string_view text) const = 0;

  /// Returns the text of tokens, without special tokens. Throws, naming the token, if one is
  /// outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;

  /// Returns whether decode(a) followed by decode(b) equals decode(a, b), so that tokens can be
  /// printed one by one.
  virtual bool decodes_piecewise() const = 0;

  /// Returns how many leading bytes of decode(tokens) stay the same whatever tokens follow, so that
  /// a text can be shown while it is generated.
  virtual size_t settled_bytes(std::span<const int32_t> tokens) const;

  /// Returns one token as printable UTF-8: "##ing", "[MASK]" or "\x0a". Throws as decode() does.
  virtual std::string token_text(int32_t token) const = 0;

  /// The token that follows each document and occurs in no text, if the kind has one.
  virtual std::optional<int32_t> end_of_document() const = 0;

  /// The special tokens, if the kind has any.
  virtual SpecialTokens special() const = 0;

  /// For each token, whether it continues the word of the previous token. May be empty if none
  /// does.
  virtual std::vector<bool> continues_word() const = 0;

  /// The tokens that stand for their names and no other text, by id: special tokens, and those that
  /// encode() finds in a text before it is split into words.
  virtual std::vector<int32_t> named_tokens() const { return {}; }

  /// Returns everything that tokenizer_from_json() needs, including the vocabulary.
  virtual Json to_json() const = 0;

  VocabularyTraits traits() const { return {vocab_size(), special(), continues_word()}; }

 protected:
  /// Throws, naming the kind, unless `token` is in the vocabulary.
  void require_token(int32_t token) const;
};

/// Creates the tokenizer of a specification (tokenizer_spec.h). Throws if there is no such kind, if
/// its file cannot be read, and for "none", which is an IdTokenizer of a given size.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view spec);

/// The inverse of to_json(); `source` names the text in messages. Treats `json` as untrusted and
/// throws if it describes no tokenizer.
std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& json, const std::string& source);

}  // namespace tessera
