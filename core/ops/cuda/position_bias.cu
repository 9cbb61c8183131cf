#include <bit>

#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/ops/device_ops.h"
#include "core/ops/position_bias.h"

namespace tessera::cuda {
namespace {

// Runs once per pass.
__global__ void alibi_kernel(int64_t first_head, int64_t n, int64_t count, int64_t columns,
                             float* table) {
  const int64_t center = columns / 2;
  for (int64_t at = global_thread(); at < count; at += global_threads()) {
    const int64_t column = at % columns;
    const int64_t distance = column < center ? center - column : column - center;
    const auto slope = static_cast<float>(exp2(alibi_log2_slope(first_head + at / columns, n)));
    table[at] = -slope * static_cast<float>(distance);
  }
}

/// A block fills the columns of one bucket and head.
template <typename T>
__global__ void relative_kernel(const T* weights, BucketRanges buckets, int64_t heads,
                                int64_t reach, float* table) {
  const int64_t bucket = blockIdx.x / heads, h = blockIdx.x % heads;
  const Range distances = buckets.of(bucket, reach);
  const float weight = to_float(weights[bucket * heads + h]);
  float* const center = table + h * (2 * reach - 1) + reach - 1;
  for (int64_t d = distances.begin + threadIdx.x; d < distances.end; d += blockDim.x) {
    center[d] = weight;
  }
}

/// A warp sums the columns of one bucket and head.
__global__ void relative_backward_kernel(const float* dtable, BucketRanges buckets, int64_t heads,
                                         int64_t reach, float* dweights) {
  const int64_t bucket = blockIdx.x / heads, h = blockIdx.x % heads;
  const Range distances = buckets.of(bucket, reach);
  const float* const center = dtable + h * (2 * reach - 1) + reach - 1;
  float sum = 0.0f;
  for (int64_t d = distances.begin + threadIdx.x; d < distances.end; d += kWarpSize) {
    sum += center[d];
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) dweights[bucket * heads + h] += sum;
}

}  // namespace

void alibi_bias(int64_t first_head, int64_t total_heads, Tensor table) {
  const auto n = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(total_heads)));
  launch("alibi_bias", one_dimensional(table.numel(), kBlockThreads), alibi_kernel, first_head, n,
         table.numel(), table.dim(1), table.data<float>());
}

void relative_bias(const Tensor& weights, const BucketRanges& buckets, Tensor table) {
  const int64_t reach = (table.dim(1) + 1) / 2;
  const auto blocks = static_cast<unsigned>(narrow<int>(weights.numel()));
  dispatch_float(weights.dtype(), [&]<typename T>() {
    launch("relative_bias", {dim3(blocks), dim3(kBlockThreads)}, relative_kernel<T>,
           weights.data<T>(), buckets, table.dim(0), reach, table.data<float>());
  });
}

void relative_bias_backward(const Tensor& dtable, const BucketRanges& buckets, Tensor dweights) {
  const int64_t reach = (dtable.dim(1) + 1) / 2;
  const auto blocks = static_cast<unsigned>(narrow<int>(dweights.numel()));
  launch("relative_bias_backward", {dim3(blocks), dim3(kWarpSize)}, relative_backward_kernel,
         dtable.data<float>(), buckets, dtable.dim(0), reach, dweights.data<float>());
}

}  // namespace tessera::cuda
