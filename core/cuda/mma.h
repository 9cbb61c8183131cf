#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/cuda/device_code.h"

/// Tensor cores by warps: the matrices' elements are spread over lanes as PTX's mma.m16n8k16 wants
/// them. With g = lane / 4 and t = lane % 4, a lane holds
///   of A (16 × 16), two neighbours in a register: (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t +
///   8);
///   of B (16 × 8), two neighbours of a column: (2t, g), (2t + 8, g);
///   of C (16 × 8): (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
/// All lanes of a warp call these together.
namespace tessera::cuda {

/// Two numbers rounded to nearest even, `low` in the lower half.
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

#if !defined(__CUDACC__)
/// What tensor cores do with what the lanes of a warp bring.
namespace emulated {

inline float half_of(uint32_t pair, int which) {
  return __uint_as_float(which == 0 ? pair << 16 : pair & 0xffff0000u);
}

struct Product {
  float c[4];
  uint32_t a[4], b[2];
};

inline void multiply(Product* const* lanes) {
  float a[16][16], b[16][8], c[16][8];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const Product& mine = *lanes[lane];
    const int g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        a[g + 8 * (i % 2)][2 * t + 8 * (i / 2) + half] = half_of(mine.a[i], half);
        c[g + 8 * (i / 2)][2 * t + i % 2] = mine.c[i];
      }
      for (int i = 0; i < 2; ++i) b[2 * t + 8 * i + half][g] = half_of(mine.b[i], half);
    }
  }
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 8; ++n) c[m][n] += a[m][k] * b[k][n];
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    for (int i = 0; i < 4; ++i) {
      lanes[lane]->c[i] = c[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
    }
  }
}

struct Matrices {
  const bfloat16* row;
  uint32_t registers[4];
};

template <bool kTransposed>
void load(Matrices* const* lanes) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (reinterpret_cast<uintptr_t>(lanes[lane]->row) % 16 != 0) {
      simt::fail("ldmatrix of a row that is not aligned to 16 bytes");
    }
    const int g = lane / 4, t = lane % 4;
    for (int m = 0; m < 4; ++m) {
      const auto element = [&](int row, int column) {
        return uint32_t{lanes[8 * m + row]->row[column].bits};
      };
      lanes[lane]->registers[m] = kTransposed ? element(2 * t, g) | element(2 * t + 1, g) << 16
                                              : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
    }
  }
}

}  // namespace emulated
#endif

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
  emulated::Product product{{c0, c1, c2, c3}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  simt::together<emulated::multiply>(product, simt::Site::current());
  c0 = product.c[0];
  c1 = product.c[1];
  c2 = product.c[2];
  c3 = product.c[3];
#endif
}

/// Four 8 × 8 matrices of bf16 from shared memory: lane 8m + i gives where row i of matrix m is (16
/// bytes, aligned), and gets of each matrix the elements (g, 2t) and (g, 2t + 1), or, transposed,
/// (2t, g) and (2t + 1, g).
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
  emulated::Matrices matrices{row, {}};
  simt::together<emulated::load<kTransposed> >(matrices, simt::Site::current());
  for (int m = 0; m < 4; ++m) registers[m] = matrices.registers[m];
#endif
}

}  // namespace tessera::cuda
