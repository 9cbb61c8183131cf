#pragma once

#include <algorithm>
#include <cstdint>

#include "core/masks/attention_mask.h"

namespace tessera {

/// The keys that the newest position of a cache sees, in ascending order: the first `global` ones,
/// and then those from `begin` to `end` that are `step` apart.
struct DecodedKeys {
  int64_t global, begin, end, step;

  constexpr int64_t count() const {
    return global + (end > begin ? (end - begin + step - 1) / step : 0);
  }
  constexpr int64_t position(int64_t i) const {
    return i < global ? i : begin + (i - global) * step;
  }
};

/// Those of a cache of `length` ≥ 1 positions with the new one, by the window, dilation and
/// global_tokens of `mask`.
inline DecodedKeys decoded_keys(const AttentionMask& mask, int64_t length) {
  const int64_t newest = length - 1;
  if (mask.window == 0 || newest < mask.global_tokens) return {0, 0, length, 1};
  // Keys newest − k × dilation, k from 0 to `most`, that are not global tokens.
  const int64_t most = std::min(mask.window - 1, (newest - mask.global_tokens) / mask.dilation);
  return {mask.global_tokens, newest - most * mask.dilation, length, mask.dilation};
}

}  // namespace tessera
