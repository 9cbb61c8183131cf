#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
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

/// The names of special tokens in data without a tokenizer, as in Hugging Face's `mask_token_id`.
inline constexpr std::array<std::string_view, 6> kSpecialTokenNames = {"cls", "sep", "mask",
                                                                       "pad", "unk", "eos"};

/// The ids of some of these special tokens, by name. "eos" ends a document.
using SpecialTokenIds = std::map<std::string, int32_t, std::less<>>;

/// The properties of a vocabulary that masking needs.
struct VocabularyTraits {
  int64_t vocab_size = 0;
  SpecialTokens special;
  /// For each token, whether it continues the word of the previous token, like WordPiece's "##ing".
  /// Empty if none does.
  std::vector<bool> continues_word;
};

}  // namespace tessera
