#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/tokenizers/bpe/bpe_description.h"
#include "launch/tokenizers/special_tokens.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

// The contents of Hugging Face's tokenizer files, built from a vocabulary.

/// The vocabulary of a tokenizer of words or subwords.
struct Vocabulary {
  std::vector<std::string> tokens;  ///< in the order of their ids
  std::vector<int32_t> special;     ///< ids of tokens without text, ascending
  BpeDescription bpe;          ///< BPE, unigram; its `tokens` and `special` are the members above
  bool lower_case = false;     ///< WordPiece
  bool strip_accents = false;  ///< WordPiece
  std::optional<int32_t> end_of_document;
  SpecialTokens roles;

  /// The token, or null if there is none.
  Json token(std::optional<int32_t> id) const;
};

/// Supports kinds byte, bpe, unigram, wordpiece and wordpiece-cased. Bytes become byte-level BPE
/// without merges, with <|endoftext|> as the token after a document.
Vocabulary vocabulary_of(const Tokenizer& tokenizer);

/// tokenizer.json of BPE or a unigram model, and of WordPiece. With `adds_special`, encoding adds
/// start and end tokens to a text, as for BERT.
Json bpe_tokenizer_json(const Vocabulary& vocabulary, bool adds_special);
Json wordpiece_tokenizer_json(const Vocabulary& vocabulary, bool adds_special);

/// tokenizer_config.json, for texts of up to `seq_length` tokens. `tokenizer_class` is a class of
/// `transformers`.
Json tokenizer_config(const Vocabulary& vocabulary, const std::string& tokenizer_class,
                      int64_t seq_length);

}  // namespace tessera
