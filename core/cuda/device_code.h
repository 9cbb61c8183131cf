#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/dtype.h"

/// Code that kernels share.
namespace tessera::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffu;
inline constexpr int kWarpSize = 32;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bfloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

/// Rounds to nearest even. A NaN stays a NaN, with another payload.
template <typename T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline bfloat16 from_float<bfloat16>(float x) {
  bfloat16 result;
#ifdef __CUDA_ARCH__
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
#else
  const unsigned bits = __float_as_uint(x);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  result.bits = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40u : rounded);
#endif
  return result;
}

/// N elements that are loaded or stored in one access; N × sizeof(T) is 4, 8 or 16.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

/// The number of elements in 16 bytes.
template <typename T>
inline constexpr int kPackSize = 16 / static_cast<int>(sizeof(T));

/// The index of this thread in a one-dimensional grid, and the number of threads.
__device__ inline int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t global_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// Returns the sum over the warp to every lane, always added in the same order.
template <typename T>
__device__ T warp_sum(T x) {
  for (int step = kWarpSize / 2; step > 0; step /= 2) x += __shfl_xor_sync(kWholeWarp, x, step);
  return x;
}

/// Returns the maximum over the warp to every lane; NaNs are ignored.
__device__ inline float warp_max(float x) {
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kWholeWarp, x, step));
  }
  return x;
}

/// Returns the sum over the block to every thread. All threads of the block must call it; the block
/// consists of whole warps.
template <typename T>
__device__ T block_sum(T x) {
  __shared__ T partial[kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  x = warp_sum(x);
  if (lane == 0) partial[warp] = x;
  __syncthreads();
  x = lane < static_cast<int>(blockDim.x) / kWarpSize ? partial[lane] : T{};
  x = warp_sum(x);
  __syncthreads();  // before the next call writes
  return x;
}

}  // namespace tessera::cuda
