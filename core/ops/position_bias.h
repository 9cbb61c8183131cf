#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

// Biases of attention scores that depend only on the head and on the distance s − t of a key at s
// from its query at t. They are data, as masks are: a table (Hl, 2R − 1) fp32 of the heads of this
// rank, whose column R − 1 + (s − t) is the bias of positions that are less than R apart. Attention
// reads it once per score, and no (T, T) plane exists.

/// The slope of ALiBi (Press, Smith, Lewis, "Train Short, Test Long", 2022) for one of `heads`
/// heads, as in `build_alibi_tensor` of BLOOM in transformers. With n heads, a power of two, the
/// slopes are 2^(−8/n), 2^(−16/n), ..., 2^(−8). Otherwise, n is the next smaller power of two, and
/// the heads beyond it have every second slope of 2n heads: 2^(−4/n), 2^(−12/n), ...
double alibi_slope(int64_t head, int64_t heads);

/// log2 of that slope, where n is the largest power of two up to the number of heads.
constexpr double alibi_log2_slope(int64_t head, int64_t n) {
  const int64_t steps = head < n ? 2 * (head + 1) : 2 * (head - n) + 1;
  return -4.0 * static_cast<double>(steps) / static_cast<double>(n);
}

/// table[h][R − 1 + d] = −slope × |d| for heads first_head + h of total_heads. A causal mask hides
/// d > 0.
void alibi_bias(int64_t first_head, int64_t total_heads, Tensor table);

}  // namespace tessera
