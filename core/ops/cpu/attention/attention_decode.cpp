#include <algorithm>
#include <limits>
#include <vector>

#include "core/ops/cpu/vector_math.h"
#include "core/ops/decoded_keys.h"
#include "core/ops/device_ops.h"
#include "core/threads/parallel_for.h"

namespace tessera::cpu {
namespace {

/// `bias` is that of key 0; nullptr if there is none.
template <typename T>
void decode_head(const T* q, const T* keys, const T* values, const DecodedKeys& seen, int64_t d,
                 float scale, const float* bias, float* sums, T* out) {
  std::fill_n(sums, d, 0.0f);
  float max = -std::numeric_limits<float>::infinity();
  float weight_sum = 0.0f;
  for (int64_t i = 0; i < seen.count(); ++i) {
    const int64_t s = seen.position(i);
    const T* key = keys + s * d;
    float score = 0.0f;
#pragma omp simd reduction(+ : score)
    for (int64_t c = 0; c < d; ++c) score += static_cast<float>(q[c]) * static_cast<float>(key[c]);
    score *= scale;
    if (bias != nullptr) score += bias[s];
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
  for (int64_t i = 0; i < d; ++i) out[i] = static_cast<T>(sums[i] / weight_sum);
}

}  // namespace

void attention_decode(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t length,
                      const AttentionMask& mask, float scale, const Tensor& position_bias,
                      Tensor out) {
  const DecodedKeys seen = decoded_keys(mask, length);
  const int64_t capacity = keys.dim(2);
  const int64_t d = keys.dim(3), heads = q.dim(1);
  const int64_t in_group = keys.dim(1) == 0 ? 1 : heads / keys.dim(1);
  const auto bias_of = [&](int64_t h) -> const float* {
    if (!position_bias.defined()) return nullptr;
    const int64_t columns = position_bias.dim(1);
    return position_bias.data<float>() + h * columns + columns / 2 - (length - 1);
  };
  dispatch_float(q.dtype(), [&]<typename T>() {
    parallel_for(q.dim(0) * heads, 1, [&](int64_t first, int64_t last) {
      thread_local std::vector<float> sums;
      sums.resize(static_cast<size_t>(d));
      for (int64_t bh = first; bh < last; ++bh) {
        const int64_t cache = bh / in_group * capacity * d;
        decode_head(q.data<T>() + bh * d, keys.data<T>() + cache, values.data<T>() + cache, seen, d,
                    scale, bias_of(bh % heads), sums.data(), out.data<T>() + bh * d);
      }
    });
  });
}

}  // namespace tessera::cpu
