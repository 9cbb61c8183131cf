#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tessera {

/// The tokenizer's special tokens, if it has them.
struct SpecialTokens {
  std::optional<int32_t> unknown;  ///< [UNK]
  std::optional<int32_t> start;    ///< [CLS], before a text
  std::optional<int32_t> end;      ///< [SEP], after a text and between the texts of a pair
  std::optional<int32_t> padding;  ///< [PAD]
  std::optional<int32_t> mask;     ///< [MASK]
};

/// The properties of a vocabulary that masking needs.
struct VocabularyTraits {
  int64_t vocab_size = 0;
  SpecialTokens special;
  /// For each token, whether it continues the word of the previous token, like WordPiece's "##ing".
  std::vector<bool> continues_word;
};

}  // namespace tessera
