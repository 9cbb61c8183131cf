#include <algorithm>
#include <limits>
#include <vector>

#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"
#include "core/range.h"
#include "core/threads/parallel_for.h"

namespace tessera::cpu {
namespace {

template <typename T>
void decode_head(const T* q, const T* keys, const T* values, Range seen, int64_t d, float scale,
                 float* sums, T* out) {
  std::fill_n(sums, d, 0.0f);
  float max = -std::numeric_limits<float>::infinity();
  float weight_sum = 0.0f;
  for (int64_t s = seen.begin; s < seen.end; ++s) {
    const T* key = keys + s * d;
    float score = 0.0f;
#pragma omp simd reduction(+ : score)
    for (int64_t i = 0; i < d; ++i) score += static_cast<float>(q[i]) * static_cast<float>(key[i]);
    score *= scale;
    const float new_max = std::max(max, score);
    const float shrink = vec::exp(max - new_max);
    const float weight = vec::exp(score - new_max);
    const T* value = values + s * d;
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) {
      sums[i] = sums[i] * shrink + weight * static_cast<float>(value[i]);
    }
    weight_sum = weight_sum * shrink + weight;
    max = new_max;
  }
  for (int64_t i = 0; i < d; ++i) out[i] = static_cast<T>(sums[i] / weight_sum);
}

}  // namespace

void attention_decode(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t length,
                      int64_t window, float scale, Tensor out) {
  const Range seen{window == 0 ? 0 : std::max<int64_t>(0, length - window), length};
  const int64_t capacity = keys.dim(2);
  const int64_t d = keys.dim(3);
  dispatch_float(q.dtype(), [&]<typename T>() {
    parallel_for(q.dim(0) * q.dim(1), 1, [&](int64_t first, int64_t last) {
      thread_local std::vector<float> sums;
      sums.resize(static_cast<size_t>(d));
      for (int64_t bh = first; bh < last; ++bh) {
        const int64_t cache = bh * capacity * d;
        decode_head(q.data<T>() + bh * d, keys.data<T>() + cache, values.data<T>() + cache, seen, d,
                    scale, sums.data(), out.data<T>() + bh * d);
      }
    });
  });
}

}  // namespace tessera::cpu
