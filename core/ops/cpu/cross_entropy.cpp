#include "core/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

template <typename T>
float maximum(const T* x, int64_t n) {
  float result = kMinusInfinity;
#pragma omp simd reduction(max : result)
  for (int64_t i = 0; i < n; ++i) {
    const float value = to_float(x[i]);
    result = value > result ? value : result;
  }
  return result;
}

struct TileResult {
  float sum;
  float next_max;
};

// Σ exp(x − shift) over a tile and the maximum of the next tile, whose loads overlap the
// exponentials. `next_size` is at most `size`.
template <typename T>
TileResult sum_exp(const T* x, float shift, int64_t size, const T* next, int64_t next_size) {
  float sum = 0.0f, max = kMinusInfinity;
  const auto block = [&](int64_t first, auto count) {
#pragma omp simd reduction(+ : sum) reduction(max : max)
    for (int64_t i = first; i < first + count; ++i) {
      sum += vec::exp_below(to_float(x[i]) - shift);
      const float value = to_float(next[i]);
      max = value > max ? value : max;
    }
  };
  for_each_block<kSumBlock>(next_size, block, next);
#pragma omp simd reduction(+ : sum)
  for (int64_t i = next_size; i < size; ++i) sum += vec::exp_below(to_float(x[i]) - shift);
  return {sum, max};
}

struct RowStatistics {
  float max = kMinusInfinity;
  double sum = 0.0;
};

// A running maximum, and a sum relative to it that is rescaled when the maximum grows (Milakov,
// Gimelshein, 2018), over tiles that stay in the L1 cache between their maximum and their sum.
template <typename T>
RowStatistics row_statistics(const T* x, int64_t n) {
  constexpr int64_t kTile = 2048;
  RowStatistics row;
  float tile_max = maximum(x, std::min(kTile, n));
  for (int64_t begin = 0; begin < n; begin += kTile) {
    const int64_t size = std::min(kTile, n - begin);
    if (tile_max > row.max) {
      row.sum *= std::exp(static_cast<double>(row.max) - static_cast<double>(tile_max));
      row.max = tile_max;
    }
    // If all are −inf there is nothing to shift by; a NaN must reach the sum.
    const float shift = row.max == kMinusInfinity ? 0.0f : row.max;
    const int64_t next = begin + size;
    const TileResult tile = sum_exp(x + begin, shift, size, x + next, std::min(kTile, n - next));
    row.sum += static_cast<double>(tile.sum);
    tile_max = tile.next_max;
  }
  return row;
}

/// x = scale × exp(x − log_sum_exp)
template <typename T>
void scaled_softmax(T* x, float log_sum_exp, float scale, int64_t n) {
  const auto value = [=](int64_t i) {
    return scale * vec::exp_below(to_float(x[i]) - log_sum_exp);
  };
  map_blocks(n, x, value);
}

/// Replaces the row's logits by their gradient. `hot` is the target's column, or −1.
template <typename T>
void row_gradient(T* row, int64_t columns, int64_t valid, int64_t hot, float log_sum_exp,
                  float scale) {
  // The target's element is computed separately, so its difference is rounded once.
  const float hot_logit = hot < 0 ? 0.0f : to_float(row[hot]);
  scaled_softmax(row, log_sum_exp, scale, valid);
  if (hot >= 0) row[hot] = from_float<T>(scale * (vec::exp_below(hot_logit - log_sum_exp) - 1.0f));
  std::fill_n(row + valid, columns - valid, T(0.0f));
}

}  // namespace

void cross_entropy_statistics(const Tensor& logits, const Tensor& targets, int64_t first,
                              int64_t valid, Tensor row_max, Tensor row_sum, Tensor target_logit) {
  const int64_t columns = logits.dim(1);
  const Range local{first, first + valid};
  const int32_t* target = targets.data<int32_t>();
  float *max = row_max.data<float>(), *sum = row_sum.data<float>();
  float* at_target = target_logit.data<float>();
  dispatch_float(logits.dtype(), [&]<typename T>() {
    const T* x = logits.data<T>();
    parallel_for(logits.dim(0), grain_for(columns), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const T* row = x + n * columns;
        const RowStatistics statistics = row_statistics(row, valid);
        max[n] = statistics.max;
        sum[n] = static_cast<float>(statistics.sum);
        at_target[n] = local.contains(target[n]) ? to_float(row[target[n] - first]) : 0.0f;
      }
    });
  });
}

void cross_entropy_gradient(Tensor logits, const Tensor& targets, int64_t first, int64_t valid,
                            const Tensor& log_sum_exp, const Scalar& factor) {
  const float scale = factor.host_value();
  const int64_t columns = logits.dim(1);
  const Range local{first, first + valid};
  const int32_t* target = targets.data<int32_t>();
  const float* lse = log_sum_exp.data<float>();
  dispatch_float(logits.dtype(), [&]<typename T>() {
    T* x = logits.data<T>();
    parallel_for(logits.dim(0), grain_for(columns), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        T* row = x + n * columns;
        if (target[n] == kIgnoreTarget) {
          std::fill_n(row, columns, T(0.0f));
          continue;
        }
        const int64_t hot = local.contains(target[n]) ? target[n] - first : -1;
        row_gradient(row, columns, valid, hot, lse[n], scale);
      }
    });
  });
}

// A row's logits are still in the cache for their gradient.
void cross_entropy_with_gradient(Tensor logits, const Tensor& targets, int64_t valid,
                                 const Scalar& factor, Tensor row_max, Tensor row_sum,
                                 Tensor target_logit) {
  const float scale = factor.host_value();
  const int64_t columns = logits.dim(1);
  const int32_t* target = targets.data<int32_t>();
  float *max = row_max.data<float>(), *sum = row_sum.data<float>();
  float* at_target = target_logit.data<float>();
  dispatch_float(logits.dtype(), [&]<typename T>() {
    T* x = logits.data<T>();
    parallel_for(logits.dim(0), grain_for(columns), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        T* row = x + n * columns;
        const RowStatistics statistics = row_statistics(row, valid);
        max[n] = statistics.max;
        sum[n] = static_cast<float>(statistics.sum);
        if (target[n] == kIgnoreTarget) {
          at_target[n] = 0.0f;
          std::fill_n(row, columns, T(0.0f));
          continue;
        }
        const int64_t hot = Range{0, valid}.contains(target[n]) ? target[n] : -1;
        at_target[n] = hot < 0 ? 0.0f : to_float(row[hot]);
        row_gradient(row, columns, valid, hot, max[n] + std::log(sum[n]), scale);
      }
    });
  });
}

}  // namespace tessera::cpu
