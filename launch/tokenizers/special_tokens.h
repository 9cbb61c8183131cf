#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tessera {

/// Tokens that stand for no text, where a tokenizer has them.
struct SpecialTokens {
  std::optional<int32_t> unknown;  ///< [UNK]
  std::optional<int32_t> start;    ///< [CLS], before a text
  std::optional<int32_t> end;      ///< [SEP], after a text, and between the two of a pair
  std::optional<int32_t> padding;  ///< [PAD]
  std::optional<int32_t> mask;     ///< [MASK]
};

/// What masking needs to know of a vocabulary.
struct VocabularyTraits {
  int64_t vocab_size = 0;
  SpecialTokens special;
  /// For each token whether it goes on with the word of the token before it, as WordPiece's
  /// "##ing".
  std::vector<bool> continues_word;
};

}  // namespace tessera
