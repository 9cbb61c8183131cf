#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/ops/cuda/column_sums.h"

namespace tessera::cuda {
namespace {

constexpr int kSumWarps = 16;

// A block adds 32 columns of one of the sums; each of its warps adds every 16th piece.
__global__ void add_pieces_kernel(const float* partials, int64_t pieces, int64_t sums,
                                  int64_t columns, bool adds, float* first, float* second) {
  __shared__ float totals[kSumWarps][kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarpSize + lane;
  const float* from = partials + blockIdx.y * columns + column;
  float total = 0.0f;
  if (column < columns) {
    for (int64_t piece = warp; piece < pieces; piece += kSumWarps) {
      total += from[piece * sums * columns];
    }
  }
  totals[warp][lane] = total;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  float all = 0.0f;
  for (int i = 0; i < kSumWarps; ++i) all += totals[i][lane];
  float* to = (blockIdx.y == 0 ? first : second) + column;
  *to = adds ? *to + all : all;
}

}  // namespace

void add_pieces(const float* partials, int64_t pieces, int64_t sums, int64_t columns,
                Accumulate accumulate, float* first, float* second) {
  const LaunchShape shape{
      dim3(static_cast<unsigned>(ceil_div(columns, kWarpSize)), second == nullptr ? 1 : 2),
      dim3(kSumWarps * kWarpSize)};
  launch("a sum over rows", shape, add_pieces_kernel, partials, pieces, sums, columns,
         accumulate == Accumulate::yes, first, second);
}

}  // namespace tessera::cuda
