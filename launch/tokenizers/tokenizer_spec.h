#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class TokenizerKind : uint8_t {
  byte,             ///< a token per byte, and one between documents
  wordpiece,        ///< BERT's, lower-cased and without accents
  wordpiece_cased,  ///< BERT's, with case and accents
  bpe,              ///< GPT-2's byte-level BPE
  unigram,          ///< a unigram model of a tokenizer.json
  sentencepiece,    ///< a SentencePiece model
  huggingface,      ///< reads a tokenizer.json of one of these kinds
  tessera,          ///< reads the tokenizer of a checkpoint or dataset
  none,             ///< data of ids, without a tokenizer (id_tokenizer.h)
};

/// A tokenizer specification: "byte", "none", "wordpiece:vocab.txt", "bpe:FOLDER" and so on. The
/// specification says whether a vocab.txt is cased, because the file does not.
struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::byte;
  std::string path;  ///< of its file or folder; empty if the kind has none
};

/// Describes the valid specifications, for messages and documentation.
std::string tokenizer_specs_allowed();

std::string_view to_string(TokenizerKind kind);

/// Returns the kind with this name; otherwise throws a message that starts with `where` and lists
/// the kinds.
TokenizerKind tokenizer_kind(std::string_view name, std::string_view where);

/// Returns whether parse_tokenizer_spec() accepts `text`.
bool is_tokenizer_spec(std::string_view text);

/// Parses a specification without opening files. Throws, with what is allowed, if it is invalid.
TokenizerSpec parse_tokenizer_spec(std::string_view text);

}  // namespace tessera
