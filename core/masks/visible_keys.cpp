#include "core/masks/visible_keys.h"

#include <algorithm>

namespace tessera {

int64_t visible_keys(int64_t t, int64_t length, const AttentionMask& mask) {
  const int64_t end = mask.causal ? std::min(length, std::max(t + 1, mask.prefix)) : length;
  if (mask.window == 0 || t < mask.global_tokens) return end;
  const int64_t most = mask.window - 1, step = mask.dilation;
  const int64_t before = std::min(most, t / step), after = std::min(most, (end - 1 - t) / step);
  // The window's keys before t that are global tokens.
  const int64_t in_both = std::max<int64_t>(0, before - (t - mask.global_tokens) / step);
  return before + 1 + after + mask.global_tokens - in_both;
}

}  // namespace tessera
