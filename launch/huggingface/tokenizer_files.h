#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/tokenizers/special_tokens.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

// The values that stand in Hugging Face's tokenizer files, each made from a vocabulary.

/// A vocabulary as tokenizers of words, or of parts of words, have it.
struct Vocabulary {
  std::vector<std::string> tokens;  ///< in the order of their ids
  std::vector<std::string> merges;  ///< "Ġ t": of byte-level BPE
  std::vector<int32_t> special;     ///< ids of those that stand for no text, ascending
  std::vector<int32_t> strip_left;  ///< of them, those that take the white space before them
  bool add_prefix_space = false;    ///< byte-level BPE
  bool lower_case = false;          ///< WordPiece
  bool strip_accents = false;       ///< WordPiece
  std::optional<int32_t> end_of_document;
  SpecialTokens roles;

  /// The token, or null if there is none.
  Json token(std::optional<int32_t> id) const;
};

/// Of kinds byte, bpe, wordpiece and wordpiece-cased. Bytes are byte-level BPE without merges,
/// whose token after a document is <|endoftext|>.
Vocabulary vocabulary_of(const Tokenizer& tokenizer);

/// tokenizer.json of byte-level BPE and of WordPiece. With `adds_special`, encoding puts a text
/// between the tokens that start and end one, as BERT has it.
Json bpe_tokenizer_json(const Vocabulary& vocabulary, bool adds_special);
Json wordpiece_tokenizer_json(const Vocabulary& vocabulary, bool adds_special);

/// tokenizer_config.json, for texts of up to `seq_length` tokens. `tokenizer_class` is that of
/// `transformers`.
Json tokenizer_config(const Vocabulary& vocabulary, const std::string& tokenizer_class,
                      int64_t seq_length);

}  // namespace tessera
