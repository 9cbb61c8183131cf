#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/cuda/device_code.h"

/// Warp-wide tensor core products with the operand layout of PTX's mma.m16n8k16. With g = lane / 4
/// and t = lane % 4, a lane holds
///     A (16 × 16): (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), each with the next in its row;
///     B (16 × 8):  (2t, g), (2t + 8, g), each with the next in its column;
///     C (16 × 8):  (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
/// All lanes of a warp must call these functions together.
namespace tessera::cuda {

/// Packs two numbers, rounded to nearest even, `low` in the lower half.
__device__ inline uint32_t pack_bf16(float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return from_float<bfloat16>(low).bits | static_cast<uint32_t>(from_float<bfloat16>(high).bits)
                                              << 16;
#endif
}

/// C += A B in fp32.
__device__ inline void mma_m16n8k16(float& c0, float& c1, float& c2, float& c3,
                                    const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if defined(__CUDA_ARCH__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#elif !defined(__CUDACC__)
  emulator::MmaOperands product{{c0, c1, c2, c3}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  emulator::together<emulator::mma_m16n8k16>(product, emulator::Site::current());
  c0 = product.c[0];
  c1 = product.c[1];
  c2 = product.c[2];
  c3 = product.c[3];
#endif
}

/// Loads four 8 × 8 matrices of bf16 from shared memory. Lane 8m + i passes the address of row i of
/// matrix m (16 bytes, aligned) and receives the elements (g, 2t) and (g, 2t + 1) of each matrix
/// or, transposed, (2t, g) and (2t + 1, g).
template <bool kTransposed>
__device__ void load_matrices(uint32_t (&registers)[4], const bfloat16* row) {
#if defined(__CUDA_ARCH__)
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(address)
                 : "memory");
  }
#elif !defined(__CUDACC__)
  emulator::MatrixRow matrices = emulator::matrix_row(row);
  emulator::together<emulator::ldmatrix<kTransposed> >(matrices, emulator::Site::current());
  for (int m = 0; m < 4; ++m) registers[m] = matrices.registers[m];
#endif
}

}  // namespace tessera::cuda
