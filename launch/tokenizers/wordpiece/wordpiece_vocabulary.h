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

/// The prefix of a token that continues a word.
inline constexpr std::string_view kContinuation = "##";
/// The maximum length of a token.
inline constexpr size_t kMaxTokenBytes = 1000;

/// BERT's special tokens, in the order of a new vocabulary.
inline constexpr std::string_view kBertSpecial[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

/// How messages name a token: "token 0", or "line 1" for a file with a token per line.
enum class TokenName { number, line };

/// The tokens of a WordPiece tokenizer: each starts a word, or continues one after "##".
class WordPieceVocabulary {
 public:
  /// Token i is tokens[i]; `source` and `name` name tokens in messages. Throws unless tokens are
  /// unique, valid UTF-8 of 1 to kMaxTokenBytes bytes, and include [UNK].
  WordPieceVocabulary(std::vector<std::string> tokens, const std::string& source,
                      TokenName name = TokenName::number);
  WordPieceVocabulary(WordPieceVocabulary&&) = default;
  WordPieceVocabulary& operator=(WordPieceVocabulary&&) = default;
  WordPieceVocabulary(const WordPieceVocabulary&) = delete;  // the maps refer to tokens_
  WordPieceVocabulary& operator=(const WordPieceVocabulary&) = delete;

  /// Reads a vocab.txt, which has a token per line.
  static WordPieceVocabulary read(const std::string& path);
  /// Reads an object with the list "tokens".
  static WordPieceVocabulary from_json(const JsonObject& object);

  const std::vector<std::string>& tokens() const { return tokens_; }
  const SpecialTokens& special() const { return special_; }
  int32_t unknown() const { return *special_.unknown; }
  bool continues_word(int32_t token) const;
  /// Returns the token with this text, if any.
  std::optional<int32_t> find(std::string_view token) const;

  /// Appends the pieces of a word, each the longest match from the left, or [UNK] if they do not
  /// cover the word.
  void append_pieces(std::string_view word, std::vector<int32_t>& out) const;

 private:
  using Ids = std::unordered_map<std::string_view, int32_t>;

  std::vector<std::string> tokens_;
  Ids ids_;             ///< of whole tokens
  Ids continuations_;   ///< of "##x", without the "##"
  size_t longest_ = 0;  ///< length of the longest token in bytes
  SpecialTokens special_;
};

/// Returns whether a word, which is valid UTF-8, is [UNK] for any vocabulary because it has more
/// than 100 characters.
bool is_too_long(std::string_view word);

/// Returns the contents of a vocab.txt.
std::string vocabulary_text(const std::vector<std::string>& tokens);

}  // namespace tessera
