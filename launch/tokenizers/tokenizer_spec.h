#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class TokenizerKind : uint8_t {
  byte,             ///< a token for each byte, and one between documents
  wordpiece,        ///< BERT's, which lower-cases and strips accents
  wordpiece_cased,  ///< BERT's, which does neither
  bpe,              ///< GPT-2's byte-level BPE
  sentencepiece,    ///< a model of SentencePiece
  huggingface,      ///< one of these, of a tokenizer.json; no tokenizer's own kind
};

/// Which tokenizer: "byte", "wordpiece:vocab.txt", "bpe:FOLDER" and so on. Whether a vocab.txt is
/// cased is said, never guessed: the file does not say it.
struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::byte;
  std::string path;  ///< of its file or folder; empty for a kind that has none
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
