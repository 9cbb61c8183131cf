#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class TokenizerKind : uint8_t {
  byte,             ///< a token for each byte, and one between documents
  wordpiece,        ///< BERT's, which lower-cases and strips accents
  wordpiece_cased,  ///< BERT's, which does neither
};

/// Which tokenizer: "byte", "wordpiece:vocab.txt" or "wordpiece-cased:vocab.txt". Whether a
/// vocabulary is cased is said, never guessed: its file does not say it.
struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::byte;
  std::string path;  ///< of the vocabulary; empty for a kind that has none
};

/// In words, for messages and the documentation.
std::string tokenizer_specs_allowed();

std::string_view to_string(TokenizerKind kind);

/// The kind of such a name; throws, with those that exist and starting with `where`, for any other.
TokenizerKind tokenizer_kind(std::string_view name, std::string_view where);

/// Whether parse_tokenizer_spec() takes it.
bool is_tokenizer_spec(std::string_view text);

/// Throws, with what is allowed, if `text` is no specification. Opens no file.
TokenizerSpec parse_tokenizer_spec(std::string_view text);

}  // namespace tessera
