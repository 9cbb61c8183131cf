#include "core/cuda/rows.h"
#include "core/ops/device_ops.h"
#include "core/ops/rows.h"

namespace tessera::cuda {
namespace {

/// dx[rows[m] − local_rows.begin] += dout[m] for rows within `local_rows`. The rows are distinct,
/// so no two threads write the same element.
template <typename T, int N>
__global__ void scatter_add_kernel(const T* dout, const int32_t* rows, int64_t count,
                                   int64_t columns, Range local_rows, T* dx) {
  const int64_t m = row_of_thread();
  if (m >= count || !local_rows.contains(rows[m])) return;
  T* to = dx + (rows[m] - local_rows.begin) * columns;
  for (int64_t c = threadIdx.x * N; c < columns; c += blockDim.x * N) {
    Floats<N> sum = load_floats<N>(to + c);
    const Floats<N> add = load_floats<N>(dout + m * columns + c);
    for (int i = 0; i < N; ++i) sum.at[i] += add.at[i];
    store_floats(sum, to + c);
  }
}

struct Candidate {
  float value;
  int32_t column;
};

__device__ Candidate better(Candidate a, Candidate b) {
  const bool b_wins = b.value > a.value || (b.value == a.value && b.column < a.column);
  return b_wins ? b : a;
}

__device__ Candidate best_of_warp(Candidate mine) {
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    mine = better(mine, {__shfl_xor_sync(kWholeWarp, mine.value, step),
                         __shfl_xor_sync(kWholeWarp, mine.column, step)});
  }
  return mine;
}

/// A block per row. As on the CPU, a NaN in the first column is never exceeded, and other NaNs are
/// ignored.
template <typename T>
__global__ void argmax_kernel(const T* x, int64_t columns, int32_t* out) {
  __shared__ Candidate of_warp[kWarpSize];
  const T* row = x + blockIdx.x * columns;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const Candidate none{-INFINITY, INT32_MAX};
  Candidate best = none;
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    best = better(best, {to_float(row[c]), static_cast<int32_t>(c)});
  }
  best = best_of_warp(best);
  if (lane == 0) of_warp[threadIdx.x / kWarpSize] = best;
  __syncthreads();
  if (threadIdx.x >= kWarpSize) return;
  best = best_of_warp(lane < static_cast<int>(blockDim.x) / kWarpSize ? of_warp[lane] : none);
  const float first = to_float(row[0]);
  if (lane == 0) out[blockIdx.x] = first == first ? best.column : 0;
}

__global__ void gather_ints_kernel(const int32_t* values, const int32_t* rows, int64_t count,
                                   int32_t* out) {
  for (int64_t m = global_thread(); m < count; m += global_threads()) out[m] = values[rows[m]];
}

__global__ void count_equal_kernel(const int32_t* a, const int32_t* b, int64_t n, double* count) {
  int equal = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) equal += a[i] == b[i] ? 1 : 0;
  equal = block_sum(equal);
  if (threadIdx.x == 0) *count += equal;
}

}  // namespace

void gather_rows(const Tensor& x, const Tensor& rows, Tensor out, int64_t first) {
  cuda::embedding_forward(rows, x, {first, first + rows_of(x)}, out);
}

void scatter_add_rows(const Tensor& dout, const Tensor& rows, Tensor dx, int64_t first) {
  const int64_t count = rows.numel(), columns = dx.dim(-1);
  const Range local_rows = {first, first + rows_of(dx)};
  dispatch_float(dx.dtype(), [&]<typename T>() {
    dispatch_pack<T>(columns, {&dout, &dx}, [&]<int N>() {
      launch("scatter_add_rows", rows_shape(count, columns / N), scatter_add_kernel<T, N>,
             dout.data<T>(), rows.data<int32_t>(), count, columns, local_rows, dx.data<T>());
    });
  });
}

void argmax_rows(const Tensor& x, Tensor out) {
  const int64_t columns = x.dim(1);
  dispatch_float(x.dtype(), [&]<typename T>() {
    launch("argmax_rows", block_per_row(x.dim(0), columns), argmax_kernel<T>, x.data<T>(), columns,
           out.data<int32_t>());
  });
}

void gather_ints(const Tensor& values, const Tensor& rows, Tensor out) {
  launch("gather_ints", one_dimensional(rows.numel(), kBlockThreads), gather_ints_kernel,
         values.data<int32_t>(), rows.data<int32_t>(), rows.numel(), out.data<int32_t>());
}

void count_equal(const Tensor& a, const Tensor& b, Tensor count) {
  launch("count_equal", one_block(a.numel()), count_equal_kernel, a.data<int32_t>(),
         b.data<int32_t>(), a.numel(), count.data<double>());
}

}  // namespace tessera::cuda
