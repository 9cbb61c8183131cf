// Kernels like those of probes.cu, for instructions that only sm_90a has.

#include "core/cuda/dynamic_shared.h"
#include "core/cuda/wgmma.h"

namespace tessera::cuda {

/// Two tiles of 64 rows of 128 bytes, as they are in shared memory.
struct alignas(kSwizzledAlignment) ProbeTiles {
  uint4 chunks[2][512];
};
inline constexpr int kProbeThreads = 128;

/// Loads both tiles for products.
__device__ inline ProbeTiles& load_tiles(const uint4* tiles) {
  auto& shared = *dynamic_shared<ProbeTiles>();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    shared.chunks[i / 4][i % 4 * kProbeThreads + threadIdx.x] =
        tiles[i * kProbeThreads + threadIdx.x];
  }
  fence_async_proxy();
  __syncthreads();
  return shared;
}

/// Register i of a thread is at thread + 128 i.
template <int kRegisters, typename T>
__device__ void load_registers(const T* from, T* to) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) to[i] = from[threadIdx.x + kProbeThreads * i];
}
template <int kN>
__device__ void store_accumulators(const float (&c)[2][kN / 4], float* to) {
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) {
    to[threadIdx.x + kProbeThreads * i] = c[i / (kN / 4)][i % (kN / 4)];
  }
}

/// C += A B and C' = A B' as two groups, with A in registers. B and B' begin in the first tile.
template <int kN, bool kTransposed>
__device__ void multiply_registers(const uint4* tiles, const uint32_t* a, float* c) {
  const ProbeTiles& shared = load_tiles(tiles);
  const auto b = tile_descriptor<2 * kN>(reinterpret_cast<const bfloat16*>(shared.chunks[0]));
  uint32_t held[4];
  load_registers<4>(a, held);
  float sums[2][kN / 4], others[2][kN / 4];
  load_registers<kN / 2>(c, &sums[0][0]);
  wgmma_fence();
  wgmma<kN, kTransposed>(sums[0], sums[1], held, b, true);
  wgmma_commit();
  wgmma<kN, kTransposed>(others[0], others[1], held, moved(b, kTransposed ? 16 * 2 * kN : 32),
                         false);
  wgmma_commit();
  wgmma_wait<1>(sums);
  store_accumulators<kN>(sums, c);
  wgmma_wait<0>(others);
  store_accumulators<kN>(others, c + kProbeThreads * kN / 2);
}
extern "C" __global__ void wgmma_registers_probe(const uint4* tiles, const uint32_t* a, float* c) {
  multiply_registers<64, false>(tiles, a, c);
}
extern "C" __global__ void wgmma_registers_transposed_probe(const uint4* tiles, const uint32_t* a,
                                                            float* c) {
  multiply_registers<64, true>(tiles, a, c);
}
extern "C" __global__ void wgmma_registers_32_probe(const uint4* tiles, const uint32_t* a,
                                                    float* c) {
  multiply_registers<32, false>(tiles, a, c);
}
extern "C" __global__ void wgmma_registers_32_transposed_probe(const uint4* tiles,
                                                               const uint32_t* a, float* c) {
  multiply_registers<32, true>(tiles, a, c);
}

/// C += A B twice, with A in the first tile and B in the second.
template <int kN>
__device__ void multiply_tiles(const uint4* tiles, float* c) {
  const ProbeTiles& shared = load_tiles(tiles);
  const auto a = tile_descriptor<2 * kN>(reinterpret_cast<const bfloat16*>(shared.chunks[0]));
  const auto b = tile_descriptor<2 * kN>(reinterpret_cast<const bfloat16*>(shared.chunks[1]));
  float sums[2][kN / 4];
  load_registers<kN / 2>(c, &sums[0][0]);
  wgmma_fence();
  wgmma<kN>(sums[0], sums[1], a, b, true);
  wgmma<kN>(sums[0], sums[1], moved(a, 32), moved(b, 32), true);
  wgmma_commit();
  wgmma_wait<0>(sums);
  store_accumulators<kN>(sums, c);
}
extern "C" __global__ void wgmma_tiles_probe(const uint4* tiles, float* c) {
  multiply_tiles<64>(tiles, c);
}
extern "C" __global__ void wgmma_tiles_32_probe(const uint4* tiles, float* c) {
  multiply_tiles<32>(tiles, c);
}

}  // namespace tessera::cuda
