#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/cuda/pack_loop.h"
#include "core/cuda/packs.h"
#include "core/ops/block_codes.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

// As many as codes, so that each loads one number of the table into shared memory.
constexpr int kCodeThreads = CodeTable::kCodes;
constexpr int kCodeWarps = kCodeThreads / kWarpSize;
constexpr int kOfLane = static_cast<int>(kCodeBlock) / kWarpSize;

/// The pack at x + first of n elements, with zeros beyond the end.
template <int N>
__device__ Floats<N> load_within(const float* x, int64_t first, int64_t n) {
  if (first + N <= n) return load_floats<N>(x + first);
  Floats<N> part;
  for (int i = 0; i < N; ++i) part.at[i] = first + i < n ? x[first + i] : 0.0f;
  return part;
}

template <int N>
__device__ void store_within(const Pack<uint8_t, N>& pack, uint8_t* to, int64_t first, int64_t n) {
  if (first + N <= n) return store(pack, to + first);
  for (int i = 0; i < N && first + i < n; ++i) to[first + i] = pack.at[i];
}

// Memory-bound: 4 bytes read and 1 written per element. A warp has a block, of which each lane has
// every 32nd pack.
template <int N>
__global__ void quantize_kernel(CodeTable table, const float* x, int64_t n, uint8_t* codes,
                                float* scales) {
  __shared__ float middle[CodeTable::kCodes];
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread + 1 < CodeTable::kCodes) middle[thread] = table.middle[thread];
  __syncthreads();
  constexpr int kPacks = kOfLane / N;
  const int lane = thread % kWarpSize;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * kCodeWarps;
  for (int64_t block = global_thread() / kWarpSize; block * kCodeBlock < n; block += warps) {
    const auto place = [&](int pack) { return block * kCodeBlock + (pack * kWarpSize + lane) * N; };
    Floats<N> at[kPacks];
    float largest = 0.0f;
    for (int pack = 0; pack < kPacks; ++pack) {
      at[pack] = load_within<N>(x, place(pack), n);
      for (int i = 0; i < N; ++i) largest = fmaxf(largest, fabsf(at[pack].at[i]));
    }
    const float scale = code_scale(warp_max(largest));
    if (lane == 0) scales[block] = scale;
    for (int pack = 0; pack < kPacks; ++pack) {
      Pack<uint8_t, N> nearest;
      for (int i = 0; i < N; ++i) {
        const float number = scale == 0.0f ? 0.0f : at[pack].at[i] / scale;
        nearest.at[i] = static_cast<uint8_t>(nearest_code(middle, number));
      }
      store_within(nearest, codes, place(pack), n);
    }
  }
}

// Memory-bound: 1 byte read and 4 written per element. A pack is in one block.
template <int N>
__global__ void dequantize_kernel(CodeTable table, const uint8_t* codes, const float* scales,
                                  int64_t n, float* x) {
  __shared__ float values[CodeTable::kCodes];
  values[threadIdx.x] = table.value[threadIdx.x];
  __syncthreads();
  const float* value = values;
  for_each_pack<N>(n, [&](auto size, int64_t first) {
    const Pack<uint8_t, size()> code = load<size()>(codes + first);
    const float scale = scales[first / kCodeBlock];
    Floats<size()> decoded;
    for (int i = 0; i < size(); ++i) decoded.at[i] = value[code.at[i]] * scale;
    store_floats(decoded, x + first);
  });
}

bool take_packs(const float* x, const uint8_t* codes) {
  return takes_packs<kPackSize<float>>(x) && takes_packs<kPackSize<float>>(codes);
}

}  // namespace

void quantize_blocks(const Tensor& x, CodeMap map, Tensor codes, Tensor scales) {
  const bool packs = take_packs(x.data<float>(), codes.data<uint8_t>());
  launch("quantize_blocks", one_dimensional(ceil_div(x.numel(), int64_t{kOfLane}), kCodeThreads),
         packs ? quantize_kernel<kPackSize<float>> : quantize_kernel<1>, code_table(map),
         x.data<float>(), x.numel(), codes.data<uint8_t>(), scales.data<float>());
}

void dequantize_blocks(const Tensor& codes, const Tensor& scales, CodeMap map, Tensor x) {
  constexpr int kPack = kPackSize<float>;
  const bool packs = take_packs(x.data<float>(), codes.data<uint8_t>());
  launch("dequantize_blocks",
         one_dimensional(packs ? ceil_div(x.numel(), int64_t{kPack}) : x.numel(), kCodeThreads),
         packs ? dequantize_kernel<kPack> : dequantize_kernel<1>, code_table(map),
         codes.data<uint8_t>(), scales.data<float>(), x.numel(), x.data<float>());
}

}  // namespace tessera::cuda
