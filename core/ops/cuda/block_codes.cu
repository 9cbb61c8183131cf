#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/ops/block_codes.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

// As many as codes, so that each loads one number of the table into shared memory.
constexpr int kThreads = CodeTable::kCodes;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kOfLane = static_cast<int>(kCodeBlock) / kWarpSize;

// Memory-bound: 4 bytes read and 1 written per element. A warp has a block.
__global__ void quantize_kernel(CodeTable table, const float* x, int64_t n, uint8_t* codes,
                                float* scales) {
  __shared__ float middle[CodeTable::kCodes];
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread + 1 < CodeTable::kCodes) middle[thread] = table.middle[thread];
  __syncthreads();
  const int lane = thread % kWarpSize;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t block = global_thread() / kWarpSize; block * kCodeBlock < n; block += warps) {
    const int64_t first = block * kCodeBlock + lane;
    float at[kOfLane];
    float largest = 0.0f;
    for (int j = 0; j < kOfLane; ++j) {
      const int64_t i = first + j * kWarpSize;
      at[j] = i < n ? x[i] : 0.0f;
      largest = fmaxf(largest, fabsf(at[j]));
    }
    const float scale = code_scale(warp_max(largest));
    if (lane == 0) scales[block] = scale;
    for (int j = 0; j < kOfLane; ++j) {
      const int64_t i = first + j * kWarpSize;
      const float number = scale == 0.0f ? 0.0f : at[j] / scale;
      if (i < n) codes[i] = static_cast<uint8_t>(nearest_code(middle, number));
    }
  }
}

// Memory-bound: 1 byte read and 4 written per element.
__global__ void dequantize_kernel(CodeTable table, const uint8_t* codes, const float* scales,
                                  int64_t n, float* x) {
  __shared__ float value[CodeTable::kCodes];
  value[threadIdx.x] = table.value[threadIdx.x];
  __syncthreads();
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    x[i] = value[codes[i]] * scales[i / kCodeBlock];
  }
}

}  // namespace

void quantize_blocks(const Tensor& x, CodeMap map, Tensor codes, Tensor scales) {
  launch("quantize_blocks", one_dimensional(ceil_div(x.numel(), int64_t{kOfLane}), kThreads),
         quantize_kernel, code_table(map), x.data<float>(), x.numel(), codes.data<uint8_t>(),
         scales.data<float>());
}

void dequantize_blocks(const Tensor& codes, const Tensor& scales, CodeMap map, Tensor x) {
  launch("dequantize_blocks", one_dimensional(x.numel(), kThreads), dequantize_kernel,
         code_table(map), codes.data<uint8_t>(), scales.data<float>(), x.numel(), x.data<float>());
}

}  // namespace tessera::cuda
