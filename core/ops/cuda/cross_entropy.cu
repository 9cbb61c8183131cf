#include "core/cuda/async_copies.h"
#include "core/cuda/dynamic_shared.h"
#include "core/cuda/rows.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/device_ops.h"

// A block per row. Logits are read once for the statistics and once for the gradient or, where one
// kernel computes both, once, if a row fits into shared memory.
namespace tessera::cuda {
namespace {

/// This rank's part of a row: its first `valid` of `columns` logits are those of vocabulary rows
/// [first, first + valid).
struct Shard {
  int64_t columns, first, valid;

  /// The column of `target`, or −1 if another rank has it.
  __device__ int64_t column_of(int64_t target) const {
    return first <= target && target < first + valid ? target - first : -1;
  }
};

/// eˣ as precisely as T can show: the error of the fast one, which grows with |x|, is far below a
/// rounding of bf16.
template <typename T>
__device__ float exponential(float x);
template <>
__device__ inline float exponential<float>(float x) {
  return expf(x);
}
template <>
__device__ inline float exponential<bfloat16>(float x) {
  return __expf(x);
}

/// The reference of exponents. If all are −inf there is nothing to shift by; a NaN must reach the
/// sum.
__device__ float shift_for(float max) { return max == -INFINITY ? 0.0f : max; }

/// A running maximum, and a sum of exponentials relative to it that is rescaled when the maximum
/// grows (Milakov, Gimelshein, 2018).
template <typename T>
struct OnlineSum {
  float max = -INFINITY;
  float sum = 0.0f;

  template <int N>
  __device__ void add(const Floats<N>& x) {
    float largest = x.at[0];
    for (int i = 1; i < N; ++i) largest = fmaxf(largest, x.at[i]);
    if (largest > max) {
      sum *= exponential<T>(max - largest);
      max = largest;
    }
    const float shift = shift_for(max);
    for (int i = 0; i < N; ++i) sum += exponential<T>(x.at[i] - shift);
  }
};

/// Returns the maximum over a block of whole warps to every thread.
__device__ float maximum_of_block(float x) {
  __shared__ float of_warp[kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  x = warp_max(x);
  if (lane == 0) of_warp[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  x = lane < static_cast<int>(blockDim.x) / kWarpSize ? of_warp[lane] : -INFINITY;
  return warp_max(x);
}

/// The maximum of a row's `valid` logits and the sum of exponentials relative to it, for every
/// thread.
template <int N, typename T>
__device__ float2 row_statistics(const T* row, int64_t valid) {
  OnlineSum<T> mine;
  const int end = static_cast<int>(valid), whole = end / N * N;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int v = thread * N; v < whole; v += threads * N) mine.add(load_floats<N>(row + v));
  if (whole + thread < end) mine.add(load_floats<1>(row + whole + thread));
  const float max = maximum_of_block(mine.max);
  const float sum = block_sum(mine.sum * exponential<T>(mine.max - shift_for(max)));
  return make_float2(max, sum);
}

/// Copies a row into shared memory, with all reads in flight at once. N elements are 16 bytes, or
/// N is 1.
template <int N, typename T>
__device__ void keep_row(const T* row, int64_t columns, T* kept) {
  const int end = static_cast<int>(columns);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if constexpr (N == 1) {
    for (int v = thread; v < end; v += threads) kept[v] = row[v];
  } else {
    AsyncCopies copies;
    for (int v = thread * N; v < end; v += threads * N) copies.start(kept + v, row + v, true);
    copies.wait();
  }
  __syncthreads();
}

/// Writes a row's gradient from its logits, which may be in the same place. Only the packs of the
/// target and of the last valid column look at single columns.
template <int N, typename T>
__device__ void write_gradient(const T* logits, T* row, const Shard& shard, int32_t target,
                               float log_sum_exp, float scale) {
  const int columns = static_cast<int>(shard.columns);
  const int hot = static_cast<int>(shard.column_of(target));
  const int end = target == kIgnoreTarget ? 0 : static_cast<int>(shard.valid);  // zeros from here
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int v = thread * N; v < columns; v += threads * N) {
    Floats<N> x{};
    if (v < end) {
      x = load_floats<N>(logits + v);
      for (int i = 0; i < N; ++i) x.at[i] = exponential<T>(x.at[i] - log_sum_exp);
      if (v <= hot && hot < v + N) {
        for (int i = 0; i < N; ++i) x.at[i] -= v + i == hot ? 1.0f : 0.0f;
      }
      for (int i = 0; i < N; ++i) x.at[i] *= scale;
      if (end < v + N) {
        for (int i = 0; i < N; ++i) x.at[i] = v + i < end ? x.at[i] : 0.0f;
      }
    }
    store_floats(x, row + v);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(512)
    statistics_kernel(const T* logits, const int32_t* targets, Shard shard, float* row_max,
                      float* row_sum, float* target_logit) {
  const int64_t n = blockIdx.x;
  const T* row = logits + n * shard.columns;
  const float2 statistics = row_statistics<N, T>(row, shard.valid);
  if (threadIdx.x != 0) return;
  const int64_t hot = shard.column_of(targets[n]);
  row_max[n] = statistics.x;
  row_sum[n] = statistics.y;
  target_logit[n] = hot < 0 ? 0.0f : to_float(row[hot]);
}

template <typename T, int N>
__global__ void __launch_bounds__(512)
    gradient_kernel(T* logits, const int32_t* targets, Shard shard, const float* log_sum_exp,
                    float told_scale, const float* scale_at) {
  const float scale = scale_at == nullptr ? told_scale : *scale_at;
  const int64_t n = blockIdx.x;
  T* row = logits + n * shard.columns;
  write_gradient<N, T>(row, row, shard, targets[n], log_sum_exp[n], scale);
}

/// kKept: the row is in shared memory between its two uses. Otherwise it is read again.
template <typename T, int N, bool kKept>
__global__ void __launch_bounds__(512)
    with_gradient_kernel(T* logits, const int32_t* targets, Shard shard, float told_scale,
                         const float* scale_at, float* row_max, float* row_sum,
                         float* target_logit) {
  const float scale = scale_at == nullptr ? told_scale : *scale_at;
  const int64_t n = blockIdx.x;
  T* row = logits + n * shard.columns;
  T* from = row;
  if constexpr (kKept) {
    from = dynamic_shared<T>();
    keep_row<N>(row, shard.columns, from);
  }
  const int32_t target = targets[n];
  const int64_t hot = shard.column_of(target);
  // Read before any thread overwrites it, which is after the sums.
  const float at_target = hot < 0 || threadIdx.x != 0 ? 0.0f : to_float(from[hot]);
  const float2 statistics = row_statistics<N, T>(from, shard.valid);
  if (threadIdx.x == 0) {
    row_max[n] = statistics.x;
    row_sum[n] = statistics.y;
    target_logit[n] = at_target;
  }
  const float log_sum_exp = statistics.x + logf(statistics.y);
  write_gradient<N, T>(from, row, shard, target, log_sum_exp, scale);
}

/// The dynamic shared memory that a block can have, beside a kilobyte of `__shared__` variables.
size_t shared_bytes_of_block() {
  int device = 0, bytes = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "cudaDeviceGetAttribute");
  return static_cast<size_t>(bytes) - 1024;
}

}  // namespace

void cross_entropy_statistics(const Tensor& logits, const Tensor& targets, int64_t first,
                              int64_t valid, Tensor row_max, Tensor row_sum, Tensor target_logit) {
  const Shard shard{logits.dim(1), first, valid};
  dispatch_float(logits.dtype(), [&]<typename T>() {
    dispatch_pack<T>(shard.columns, {&logits}, [&]<int N>() {
      launch("cross_entropy_statistics", block_per_row(logits.dim(0), valid / N),
             statistics_kernel<T, N>, logits.data<T>(), targets.data<int32_t>(), shard,
             row_max.data<float>(), row_sum.data<float>(), target_logit.data<float>());
    });
  });
}

void cross_entropy_gradient(Tensor logits, const Tensor& targets, int64_t first, int64_t valid,
                            const Tensor& log_sum_exp, const Scalar& scale) {
  const Shard shard{logits.dim(1), first, valid};
  const float* scale_at = scale.tensor.defined() ? scale.tensor.data<float>() : nullptr;
  dispatch_float(logits.dtype(), [&]<typename T>() {
    dispatch_pack<T>(shard.columns, {&logits}, [&]<int N>() {
      launch("cross_entropy_gradient", block_per_row(logits.dim(0), shard.columns / N),
             gradient_kernel<T, N>, logits.data<T>(), targets.data<int32_t>(), shard,
             log_sum_exp.data<float>(), scale.value, scale_at);
    });
  });
}

void cross_entropy_with_gradient(Tensor logits, const Tensor& targets, int64_t valid,
                                 const Scalar& scale, Tensor row_max, Tensor row_sum,
                                 Tensor target_logit) {
  const Shard shard{logits.dim(1), 0, valid};
  const float* scale_at = scale.tensor.defined() ? scale.tensor.data<float>() : nullptr;
  dispatch_float(logits.dtype(), [&]<typename T>() {
    const size_t row_bytes = static_cast<size_t>(shard.columns) * sizeof(T);
    const bool kept = row_bytes <= shared_bytes_of_block();
    dispatch_pack<T>(shard.columns, {&logits}, [&]<int N>() {
      // As many threads as cross_entropy_statistics has, for the same bits.
      LaunchShape shape = block_per_row(logits.dim(0), valid / N);
      if (kept) shape.shared_bytes = row_bytes;
      launch("cross_entropy_with_gradient", shape,
             kept ? with_gradient_kernel<T, N, true> : with_gradient_kernel<T, N, false>,
             logits.data<T>(), targets.data<int32_t>(), shard, scale.value, scale_at,
             row_max.data<float>(), row_sum.data<float>(), target_logit.data<float>());
    });
  });
}

}  // namespace tessera::cuda
