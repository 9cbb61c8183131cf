#include <algorithm>
#include <vector>

#include "core/ops/cpu/vector_math.h"
#include "core/ops/decoded_keys.h"
#include "core/ops/device_ops.h"
#include "core/threads/parallel_for.h"

namespace tessera::cpu {
namespace {

/// Rows of the planes that are added to a head's scores and that hide keys, from key 0 on; nullptr
/// if there is none.
struct ScoreRows {
  const float* bias = nullptr;
  const float* additive = nullptr;
  const uint8_t* hidden = nullptr;

  bool hides(int64_t s) const {
    return (hidden != nullptr && hidden[s] != 0) ||
           (additive != nullptr && additive[s] == kMinusInfinity);
  }
};

template <typename T>
void decode_head(const T* q, const T* keys, const T* values, const DecodedKeys& seen, int64_t d,
                 float scale, const ScoreRows& rows, float* sums, T* out) {
  std::fill_n(sums, d, 0.0f);
  float max = kMinusInfinity;
  float weight_sum = 0.0f;
  for (int64_t i = 0; i < seen.count(); ++i) {
    const int64_t s = seen.position(i);
    if (rows.hides(s)) continue;
    const T* key = keys + s * d;
    float score = 0.0f;
#pragma omp simd reduction(+ : score)
    for (int64_t c = 0; c < d; ++c) score += static_cast<float>(q[c]) * static_cast<float>(key[c]);
    score *= scale;
    if (rows.bias != nullptr) score += rows.bias[s];
    if (rows.additive != nullptr) score += rows.additive[s];
    const float new_max = std::max(max, score);
    const float shrink = vec::exp(max - new_max);
    const float weight = vec::exp(score - new_max);
    const T* value = values + s * d;
#pragma omp simd
    for (int64_t c = 0; c < d; ++c) {
      sums[c] = sums[c] * shrink + weight * static_cast<float>(value[c]);
    }
    weight_sum = weight_sum * shrink + weight;
    max = new_max;
  }
  const bool sees_none = weight_sum == 0.0f;
  for (int64_t i = 0; i < d; ++i) out[i] = static_cast<T>(sees_none ? 0.0f : sums[i] / weight_sum);
}

}  // namespace

void attention_decode(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t length,
                      const AttentionOptions& options, Tensor out) {
  const AttentionMask& mask = options.mask;
  const Tensor& position_bias = options.position_bias;
  const DecodedKeys seen = decoded_keys(mask, length);
  const int64_t capacity = keys.dim(2);
  const int64_t d = keys.dim(3), heads = q.dim(1);
  const int64_t in_group = keys.dim(1) == 0 ? 1 : heads / keys.dim(1);
  // The place of the newest position's row in a plane by position.
  const auto row_of = [&](const Tensor& plane, int64_t h) {
    const int64_t which = plane.dim(0) == 1 ? 0 : options.first_head + h;
    return (which * plane.dim(1) + length - 1) * plane.dim(2);
  };
  const auto rows_of = [&](int64_t h) {
    ScoreRows rows;
    if (position_bias.defined()) {
      const int64_t columns = position_bias.dim(1);
      rows.bias = position_bias.data<float>() + h * columns + columns / 2 - (length - 1);
    }
    if (mask.additive.defined()) {
      rows.additive = mask.additive.data<float>() + row_of(mask.additive, h);
    }
    if (mask.hidden.defined()) rows.hidden = mask.hidden.data<uint8_t>() + row_of(mask.hidden, h);
    return rows;
  };
  dispatch_float(q.dtype(), [&]<typename T>() {
    parallel_for(q.dim(0) * heads, 1, [&](int64_t first, int64_t last) {
      thread_local std::vector<float> sums;
      sums.resize(static_cast<size_t>(d));
      for (int64_t bh = first; bh < last; ++bh) {
        const int64_t cache = bh / in_group * capacity * d;
        decode_head(q.data<T>() + bh * d, keys.data<T>() + cache, values.data<T>() + cache, seen, d,
                    options.scale, rows_of(bh % heads), sums.data(), out.data<T>() + bh * d);
      }
    });
  });
}

}  // namespace tessera::cpu
