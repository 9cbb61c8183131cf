#include <algorithm>

#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/ops/cuda/attention.h"
#include "core/ops/cuda/attention_tiles.h"

namespace tessera::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kKeys = 4;  ///< that a warp takes at a time, so that their loads overlap

/// One head of one sequence a block: warps take keys in turn, each with a running softmax of its
/// own, and the warps' results are put together. A lane has columns lane, lane + 32, ….
template <typename T, int kColumns>
__global__ void decode_kernel(const T* q, const T* keys, const T* values, int64_t capacity,
                              Positions seen, int d, float scale, T* out) {
  __shared__ float sums[kWarps][kColumns * kWarpSize];
  __shared__ float maxima[kWarps], weight_sums[kWarps];
  const int lane = lane_of_thread(), warp = warp_of_thread();
  const int64_t head = blockIdx.x, cache = head * capacity * d;
  const auto load = [&](const T* from, float(&row)[kColumns]) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int column = lane + kWarpSize * j;
      row[j] = column < d ? to_float(from[column]) : 0.0f;
    }
  };
  float query[kColumns], sum[kColumns] = {};
  load(q + head * d, query);
  float max = kMinusInfinity, weight_sum = 0.0f;
  for (int s = seen.begin + kKeys * warp; s < seen.end; s += kKeys * kWarps) {
    float score[kKeys], row[kKeys][kColumns], new_max = max;
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      score[k] = 0.0f;
      if (s + k < seen.end) load(keys + cache + static_cast<int64_t>(s + k) * d, row[k]);
    }
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      if (s + k < seen.end) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) score[k] = fmaf(query[j], row[k][j], score[k]);
      }
      score[k] = s + k < seen.end ? warp_sum(score[k]) * (scale * kLog2E) : kMinusInfinity;
      new_max = fmaxf(new_max, score[k]);
    }
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      if (s + k < seen.end) load(values + cache + static_cast<int64_t>(s + k) * d, row[k]);
    }
    const float shrink = fast_exp2(max - new_max);
    max = new_max;
    weight_sum *= shrink;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sum[j] *= shrink;
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      if (s + k >= seen.end) continue;
      const float weight = fast_exp2(score[k] - max);
      weight_sum += weight;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sum[j] = fmaf(weight, row[k][j], sum[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kColumns; ++j) sums[warp][lane + kWarpSize * j] = sum[j];
  if (lane == 0) {
    maxima[warp] = max;
    weight_sums[warp] = weight_sum;
  }
  __syncthreads();

  // Warp 0 has the first key, and so a maximum.
  float total_max = maxima[0], total_weight = 0.0f;
  for (int w = 1; w < kWarps; ++w) total_max = fmaxf(total_max, maxima[w]);
  for (int w = 0; w < kWarps; ++w) {
    total_weight += fast_exp2(maxima[w] - total_max) * weight_sums[w];
  }
  for (int column = static_cast<int>(threadIdx.x); column < d; column += kThreads) {
    float total = 0.0f;
    for (int w = 0; w < kWarps; ++w) {
      total = fmaf(fast_exp2(maxima[w] - total_max), sums[w][column], total);
    }
    out[head * d + column] = from_float<T>(total / total_weight);
  }
}

}  // namespace

void attention_decode(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t length,
                      int64_t window, float scale, Tensor out) {
  const int end = narrow<int>(length), d = narrow<int>(keys.dim(3));
  const int begin = window == 0 ? 0 : narrow<int>(std::max<int64_t>(0, length - window));
  require(
      d <= kMaxHeadColumns,
      "attention on a GPU takes heads of up to {} columns, but these have {}: choose more heads",
      kMaxHeadColumns, d);
  dispatch_float(q.dtype(), [&]<typename T>() {
    const auto run = [&]<int kColumns>() {
      const LaunchShape shape{dim3(static_cast<unsigned>(narrow<int>(q.dim(0) * q.dim(1)))),
                              dim3(kThreads)};
      launch("attention_decode", shape, decode_kernel<T, kColumns>, q.data<T>(), keys.data<T>(),
             values.data<T>(), keys.dim(2), Positions{begin, end}, d, scale, out.data<T>());
    };
    if (d <= 64) return run.template operator()<2>();
    if (d <= 128) return run.template operator()<4>();
    run.template operator()<8>();
  });
}

}  // namespace tessera::cuda
