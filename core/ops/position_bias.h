#pragma once

#include <cstdint>

#include "core/range.h"
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

/// The buckets of distances that share a learned bias (Raffel et al., "T5", 2020, and
/// `_relative_position_bucket` in transformers). An encoder (`bidirectional`) has one half of them
/// for keys up to the query, and the other for later keys; a decoder has all for keys up to the
/// query, and later keys, which its mask hides, are in bucket 0. Of the n buckets of a direction,
/// n / 2 hold one distance each, 0, 1, ...; the next ones grow logarithmically up to max_distance,
/// and the last also holds all that are farther.
struct RelativeBuckets {
  int64_t count = 32;
  int64_t max_distance = 128;
  bool bidirectional = true;

  int64_t per_direction() const { return bidirectional ? count / 2 : count; }
  bool operator==(const RelativeBuckets&) const = default;
};

inline constexpr int64_t kMostRelativeBuckets = 256;

/// The bucket of distance s − t.
int64_t relative_bucket(const RelativeBuckets& buckets, int64_t distance);

/// The distances of each bucket, for the kernels.
struct BucketRanges {
  int32_t nearest[kMostRelativeBuckets];  ///< the smallest |s − t| of a direction's buckets
  int32_t per_direction;
  bool bidirectional;

  /// The distances s − t of a bucket, among those from 1 − reach to reach − 1.
  constexpr Range of(int64_t bucket, int64_t reach) const {
    const bool later = bucket >= per_direction;
    const int64_t i = later ? bucket - per_direction : bucket;
    const int64_t next = i + 1 < per_direction ? nearest[i + 1] : reach;
    const int64_t begin = nearest[i] < reach ? nearest[i] : reach,
                  end = next < reach ? next : reach;
    if (later) return {begin == 0 ? 1 : begin, end};
    return {1 - end, i == 0 && !bidirectional ? reach : 1 - begin};
  }
};
BucketRanges bucket_ranges(const RelativeBuckets& buckets);

/// table[h][R − 1 + d] = weights[bucket of d][h]. weights (count, Hl), fp32 or bf16.
void relative_bias(const Tensor& weights, const RelativeBuckets& buckets, Tensor table);

/// dweights[b][h] += Σ dtable[h][R − 1 + d] over the distances d of bucket b, in a fixed order.
/// dweights (count, Hl) fp32.
void relative_bias_backward(const Tensor& dtable, const RelativeBuckets& buckets, Tensor dweights);

}  // namespace tessera
