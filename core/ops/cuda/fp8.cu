#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/ops/device_ops.h"
#include "core/ops/fp8.h"

namespace tessera::cuda {
namespace {

// 16 lanes have 8 neighboring numbers each of the 128 that share a scale.
constexpr int kOfThread = kPackSize<bfloat16>;
constexpr int kFp8Lanes = static_cast<int>(kFp8Block) / kOfThread;
constexpr int kFp8Threads = 256;
constexpr int kFp8Teams = kFp8Threads / kFp8Lanes;

__device__ float largest_in(const Floats<kOfThread>& x) {
  float largest = 0.0f;
  for (int i = 0; i < kOfThread; ++i) largest = fmaxf(largest, finite_magnitude(x.at[i]));
  return largest;
}

__device__ Pack<uint8_t, kOfThread> codes_of(const Floats<kOfThread>& x, float inverse) {
  Pack<uint8_t, kOfThread> codes;
  for (int i = 0; i < kOfThread; ++i) codes.at[i] = fp8_code(x.at[i] * inverse);
  return codes;
}

// Memory-bound: 2 bytes read and 1 written per element.
__global__ void quantize_rows_kernel(const bfloat16* x, int64_t rows, int64_t padded,
                                     int64_t columns, Fp8RowScales places, uint8_t* codes,
                                     float* scales) {
  const int lane = static_cast<int>(threadIdx.x) % kFp8Lanes;
  const int64_t teams = global_threads() / kFp8Lanes, blocks = padded * places.blocks;
  const int64_t first_of_warp = global_thread() / kWarpSize * (kWarpSize / kFp8Lanes);
  const int64_t of_warp = global_thread() % kWarpSize / kFp8Lanes;
  // All lanes of a warp loop equally often, because they exchange numbers.
  for (int64_t first = first_of_warp; first < blocks; first += teams) {
    const int64_t i = first + of_warp, row = i / places.blocks, block = i % places.blocks;
    const int64_t at = row * columns + block * kFp8Block + lane * kOfThread;
    Floats<kOfThread> numbers = {};
    if (row < rows) numbers = load_floats<kOfThread>(x + at);
    float largest = largest_in(numbers);
    for (int step = kFp8Lanes / 2; step > 0; step /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, step));
    }
    if (i >= blocks) continue;
    const Fp8Scale scale(largest);
    if (lane == 0) scales[places.index(row, block)] = scale.scale;
    store(codes_of(numbers, scale.inverse), codes + at);
  }
}

/// Where the codes and the scale of a block of weights go.
struct Fp8Weights {
  uint8_t* codes;
  float* scales;
  int64_t columns, scale_columns;
};

// Memory-bound, likewise. A block of threads has 128 × 128 weights; the transpose goes through
// shared memory, whose rows are padded so that threads with neighboring columns use other banks.
template <bool kTransposes>
__global__ void quantize_weights_kernel(const bfloat16* w, int64_t columns, Fp8Weights out) {
  constexpr int kPasses = static_cast<int>(kFp8Block) / kFp8Teams;
  constexpr int kLine = static_cast<int>(kFp8Block) + 4;
  __shared__ float largest_of_warp[kFp8Threads / kWarpSize];
  __shared__ uint8_t tile[kTransposes ? kFp8Block * kLine : 1];
  const auto thread = static_cast<int>(threadIdx.x);
  const int team = thread / kFp8Lanes, column = thread % kFp8Lanes * kOfThread;
  const int64_t i = blockIdx.y, j = blockIdx.x;
  w += (i * columns + j) * kFp8Block;
  float largest = 0.0f;
  for (int pass = 0; pass < kPasses; ++pass) {
    const int row = pass * kFp8Teams + team;
    largest = fmaxf(largest, largest_in(load_floats<kOfThread>(w + row * columns + column)));
  }
  largest = warp_max(largest);
  if (thread % kWarpSize == 0) largest_of_warp[thread / kWarpSize] = largest;
  __syncthreads();
  for (const float of_warp : largest_of_warp) largest = fmaxf(largest, of_warp);
  const Fp8Scale scale(largest);
  const int64_t to_i = kTransposes ? j : i, to_j = kTransposes ? i : j;
  if (thread == 0) out.scales[to_i * out.scale_columns + to_j] = scale.scale;
  uint8_t* const to = out.codes + (to_i * out.columns + to_j) * kFp8Block;
  for (int pass = 0; pass < kPasses; ++pass) {  // reads the weights again, from the cache
    const int row = pass * kFp8Teams + team;
    const auto codes = codes_of(load_floats<kOfThread>(w + row * columns + column), scale.inverse);
    if constexpr (kTransposes) {
      for (int k = 0; k < kOfThread; ++k) tile[(column + k) * kLine + row] = codes.at[k];
    } else {
      store(codes, to + row * out.columns + column);
    }
  }
  if constexpr (kTransposes) {
    __syncthreads();
    for (int pass = 0; pass < kPasses; ++pass) {
      const int row = pass * kFp8Teams + team;
      Pack<uint8_t, kOfThread> codes;
      for (int k = 0; k < kOfThread; ++k) codes.at[k] = tile[row * kLine + column + k];
      store(codes, to + row * out.columns + column);
    }
  }
}

}  // namespace

void quantize_fp8_rows(const Tensor& x, const Fp8Matrix& out) {
  const int64_t columns = x.dim(-1), padded = out.codes.dim(0);
  launch("quantize_fp8_rows", one_dimensional(padded * columns / kOfThread, kFp8Threads),
         quantize_rows_kernel, x.data<bfloat16>(), rows_of(x), padded, columns,
         Fp8RowScales(rows_of(x), columns), out.codes.data<uint8_t>(), out.scales.data<float>());
}

void quantize_fp8_weights(const Tensor& w, MatrixLayout layout, const Fp8Matrix& out) {
  const LaunchShape shape = {dim3(static_cast<unsigned>(w.dim(1) / kFp8Block),
                                  static_cast<unsigned>(w.dim(0) / kFp8Block)),
                             dim3(kFp8Threads)};
  launch(
      "quantize_fp8_weights", shape,
      layout == MatrixLayout::rows ? quantize_weights_kernel<false> : quantize_weights_kernel<true>,
      w.data<bfloat16>(), w.dim(1),
      Fp8Weights{out.codes.data<uint8_t>(), out.scales.data<float>(), out.codes.dim(1),
                 out.scales.dim(1)});
}

}  // namespace tessera::cuda
