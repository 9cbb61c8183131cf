#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launch/support/text/json.h"
#include "launch/tokenizers/special_tokens.h"

namespace tessera {

/// Before a token that goes on with a word.
inline constexpr std::string_view kContinuation = "##";
/// Longer tokens are refused.
inline constexpr size_t kMaxTokenBytes = 1000;

/// Special tokens as BERT writes them, in the order of a new vocabulary.
inline constexpr std::string_view kBertSpecial[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

/// What messages call a token: "token 0", or, of a file that has a token a line, "line 1".
enum class TokenName { number, line };

/// The tokens of a WordPiece tokenizer: each a start of a word, or "##" and what goes on with one.
class WordPieceVocabulary {
 public:
  /// Token i is tokens[i]; `source` and `name` name them in messages. Throws unless each is valid
  /// UTF-8 of 1 to kMaxTokenBytes bytes, none is there twice, and [UNK] is there.
  WordPieceVocabulary(std::vector<std::string> tokens, const std::string& source,
                      TokenName name = TokenName::number);
  WordPieceVocabulary(WordPieceVocabulary&&) = default;
  WordPieceVocabulary& operator=(WordPieceVocabulary&&) = default;
  WordPieceVocabulary(const WordPieceVocabulary&) = delete;  // the maps refer to tokens_
  WordPieceVocabulary& operator=(const WordPieceVocabulary&) = delete;

  /// Of a vocab.txt, which has a token a line.
  static WordPieceVocabulary read(const std::string& path);
  /// Of an object with the list "tokens".
  static WordPieceVocabulary from_json(const JsonObject& object);

  const std::vector<std::string>& tokens() const { return tokens_; }
  const SpecialTokens& special() const { return special_; }
  int32_t unknown() const { return *special_.unknown; }
  bool continues_word(int32_t token) const;
  /// The token of this text, if there is one.
  std::optional<int32_t> find(std::string_view token) const;

  /// Appends the pieces of a word, each the longest that fits from the left, or [UNK] where they do
  /// not reach its end.
  void append_pieces(std::string_view word, std::vector<int32_t>& out) const;

 private:
  using Ids = std::unordered_map<std::string_view, int32_t>;

  std::vector<std::string> tokens_;
  Ids ids_;             ///< of whole tokens
  Ids continuations_;   ///< of "##x", without the "##"
  size_t longest_ = 0;  ///< token, in bytes
  SpecialTokens special_;
};

/// Whether a word, which is valid UTF-8, is [UNK] whatever the vocabulary: it has more than 100
/// characters.
bool is_too_long(std::string_view word);

/// The bytes of a vocab.txt.
std::string vocabulary_text(const std::vector<std::string>& tokens);

}  // namespace tessera
