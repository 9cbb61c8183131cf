#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/cuda/workspace.h"
#include "core/ops/cuda/column_sums.h"
#include "core/ops/device_ops.h"
#include "core/ops/reduce.h"

namespace tessera::cuda {
namespace {

constexpr int kReduceWarps = kBlockThreads / kWarpSize;

// --- the sum of squares: a partial sum a block, then one block for these -------------------------
constexpr int64_t kMaxSums = 1024;

// Threads process four elements at a time, with one access if all are aligned; the order is the
// same.
template <int N, typename T>
__global__ void partial_squares_kernel(const T* x, int64_t n, double* partials) {
  double total = 0.0;
  for (int64_t i = global_thread() * 4; i < n; i += global_threads() * 4) {
    Pack<T, 4> four = {};
    if (N == 4 && i + 4 <= n) {
      four = load<4>(x + i);
    } else {
      for (int j = 0; j < 4; ++j) four.at[j] = i + j < n ? x[i + j] : from_float<T>(0.0f);
    }
    for (const T element : four.at) {
      const float value = to_float(element);
      total += static_cast<double>(value) * value;
    }
  }
  total = block_sum(total);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

__global__ void add_partials_kernel(const double* partials, int count, double* out) {
  double total = 0.0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlockThreads) total += partials[i];
  total = block_sum(total);
  if (threadIdx.x == 0) *out += total;
}

// --- sums of columns -----------------------------------------------------------------------------
/// A block sums 32 packs of columns of a piece of the rows. A warp sums every eighth row, four at a
/// time, so that their loads overlap.
template <int N, typename T>
__global__ void column_sum_kernel(const T* x, RowPieces pieces, int64_t columns, float* partials) {
  constexpr int kAhead = 4;
  constexpr int kColumns = kWarpSize * N;
  __shared__ float sums[kReduceWarps][kColumns];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kColumns, column = first + lane * N;
  const int64_t begin = blockIdx.y * pieces.per_piece;
  const int64_t end = min(pieces.rows, begin + pieces.per_piece);
  Floats<N> total = {};
  if (column < columns) {
    for (int64_t row = begin + warp; row < end; row += kAhead * kReduceWarps) {
      Pack<T, N> packs[kAhead] = {};
      for (int i = 0; i < kAhead; ++i) {
        if (row + i * kReduceWarps < end)
          packs[i] = load<N>(x + (row + i * kReduceWarps) * columns + column);
      }
      for (int i = 0; i < kAhead; ++i) {
        for (int j = 0; j < N; ++j) total.at[j] += to_float(packs[i].at[j]);
      }
    }
  }
  for (int j = 0; j < N; ++j) sums[warp][lane * N + j] = total.at[j];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kColumns; i += kBlockThreads) {
    float all = 0.0f;
    for (int w = 0; w < kReduceWarps; ++w) all += sums[w][i];
    if (first + i < columns) partials[blockIdx.y * columns + first + i] = all;
  }
}

template <int N, typename T>
void add_column_sum(const Tensor& x, int64_t columns, Accumulate accumulate, float* out) {
  // About a thousand blocks; an SM holds eight at a time.
  constexpr int64_t kBlocks = 1024, kMaxPieces = 256, kMinRows = 64;
  const int64_t tiles = ceil_div(columns, kWarpSize * N);
  const int64_t at_most = std::min(ceil_div(kBlocks, tiles), kMaxPieces);
  const RowPieces pieces(x.numel() / columns, at_most, kMinRows);
  auto* partials =
      static_cast<float*>(workspace(static_cast<size_t>(at_most * columns) * sizeof(float)));
  const LaunchShape shape{dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(pieces.count())),
                          dim3(kBlockThreads)};
  launch("column_sum", shape, column_sum_kernel<N, T>, x.data<T>(), pieces, columns, partials);
  add_pieces(partials, pieces.count(), 1, columns, accumulate, out, nullptr);
}

}  // namespace

void add_sum_of_squares(const Tensor& x, Tensor out) {
  constexpr const char* kOp = "add_sum_of_squares";
  const int64_t n = x.numel();
  if (n == 0) return;
  auto* partials = static_cast<double*>(workspace(kMaxSums * sizeof(double)));
  const LaunchShape shape = one_dimensional(ceil_div(n, 4), kBlockThreads, kMaxSums);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* from = x.data<T>();
    launch(kOp, shape,
           takes_packs<4>(from) ? partial_squares_kernel<4, T> : partial_squares_kernel<1, T>, from,
           n, partials);
  });
  launch(kOp, {dim3(1), dim3(kBlockThreads)}, add_partials_kernel, partials,
         static_cast<int>(shape.grid.x), out.data<double>());
}

void column_sum(const Tensor& x, Tensor out, Accumulate accumulate) {
  const int64_t columns = out.numel();
  if (x.numel() == 0) return;
  dispatch_float(x.dtype(), [&]<typename T>() {
    constexpr int kPack = kPackSize<T>;
    if (columns % kPack == 0 && takes_packs<kPack>(x.data<T>())) {
      add_column_sum<kPack, T>(x, columns, accumulate, out.data<float>());
    } else {
      add_column_sum<1, T>(x, columns, accumulate, out.data<float>());
    }
  });
}

}  // namespace tessera::cuda
