#include "core/ops/position_bias.h"

#include <algorithm>
#include <cstdlib>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {

void alibi_bias(int64_t first_head, int64_t total_heads, Tensor table) {
  const int64_t columns = table.dim(1), center = columns / 2;
  float* to = table.data<float>();
  parallel_for(table.dim(0), grain_for(columns), [=](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      const auto slope = static_cast<float>(alibi_slope(first_head + h, total_heads));
      for (int64_t i = 0; i < columns; ++i) {
        to[h * columns + i] = -slope * static_cast<float>(std::abs(i - center));
      }
    }
  });
}

void relative_bias(const Tensor& weights, const BucketRanges& buckets, Tensor table) {
  const int64_t heads = table.dim(0), columns = table.dim(1), reach = (columns + 1) / 2;
  const int64_t count = weights.dim(0);
  float* to = table.data<float>();
  dispatch_float(weights.dtype(), [&]<typename T>() {
    const T* from = weights.data<T>();
    parallel_for(heads, grain_for(columns), [=](int64_t first, int64_t last) {
      for (int64_t h = first; h < last; ++h) {
        float* center = to + h * columns + reach - 1;
        for (int64_t b = 0; b < count; ++b) {
          const Range distances = buckets.of(b, reach);
          if (distances.empty()) continue;
          std::fill(center + distances.begin, center + distances.end,
                    static_cast<float>(from[b * heads + h]));
        }
      }
    });
  });
}

void relative_bias_backward(const Tensor& dtable, const BucketRanges& buckets, Tensor dweights) {
  const int64_t heads = dtable.dim(0), columns = dtable.dim(1), reach = (columns + 1) / 2;
  const int64_t count = dweights.dim(0);
  const float* from = dtable.data<float>();
  float* to = dweights.data<float>();
  parallel_for(heads, grain_for(columns), [=](int64_t first, int64_t last) {
    for (int64_t h = first; h < last; ++h) {
      const float* center = from + h * columns + reach - 1;
      for (int64_t b = 0; b < count; ++b) {
        const Range distances = buckets.of(b, reach);
        double sum = 0.0;
        for (int64_t d = distances.begin; d < distances.end; ++d) sum += double{center[d]};
        to[b * heads + h] += static_cast<float>(sum);
      }
    }
  });
}

}  // namespace tessera::cpu
