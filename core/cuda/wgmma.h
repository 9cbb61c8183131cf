#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/cuda/device_code.h"

/// Products of a warpgroup on Hopper's tensor cores (PTX's wgmma): C (64 × N) += A (64 × 16) B, in
/// fp32, for N of 32 or 64. Warp w of the four has rows 16w to 16w + 15 of A and C, in the layout
/// of core/cuda/mma.h; C has N / 4 columns of each of a lane's two rows. All 128 threads must call
/// these functions together.
///
/// A product only starts. Until wgmma_wait() its accumulators must not be touched, and its tiles
/// not be overwritten. Products read shared memory through the async proxy: a thread that wrote a
/// tile calls fence_async_proxy(), and a barrier follows.
///
/// The functions trap unless compiled for sm_90a.
namespace tessera::cuda {

/// Whether code of this compilation has wgmma.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWgmma = false;
#else
inline constexpr bool kHasWgmma = true;
#endif

/// Tiles in shared memory have rows of kRowBytes, 128 or 64, in groups of 8 rows, and are aligned
/// to 1024 bytes. Chunk c of 16 bytes of row r is at swizzled_chunk(r, c), so that 8 rows of one
/// chunk are in different banks.
inline constexpr int kSwizzledAlignment = 1024;
template <int kRowBytes>
__device__ constexpr int swizzled_chunk(int row, int chunk) {
  static_assert(kRowBytes == 128 || kRowBytes == 64);
  return kRowBytes == 128 ? chunk ^ (row & 7) : chunk ^ (row >> 1 & 3);
}

/// The descriptor of such a tile. Moved along the columns of the tile by 16 elements, or along its
/// rows by a multiple of 8, it describes the matrix that begins there: see moved().
template <int kRowBytes>
__device__ inline uint64_t tile_descriptor(const bfloat16* tile) {
  static_assert(kRowBytes == 128 || kRowBytes == 64);
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
#else
  const uint32_t address = emulator::shared_address(tile);
#endif
  constexpr uint64_t kUnused = 1, kBetweenGroups = 8 * kRowBytes / 16;
  constexpr uint64_t kSwizzle = kRowBytes == 128 ? 1 : 2;
  return (address & 0x3ffffu) >> 4 | kUnused << 16 | kBetweenGroups << 32 | kSwizzle << 62;
}
__device__ constexpr uint64_t moved(uint64_t descriptor, int bytes) {
  return descriptor + static_cast<uint64_t>(bytes / 16);
}

/// Makes this thread's writes to shared memory visible to products after the next barrier.
__device__ inline void fence_async_proxy() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#elif defined(__CUDA_ARCH__)
  __trap();
#elif !defined(__CUDACC__)
  emulator::fence_async_proxy();
#endif
}

/// Comes between other uses of the registers of A and C and the first product that has them.
__device__ inline void wgmma_fence() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#elif defined(__CUDA_ARCH__)
  __trap();
#elif !defined(__CUDACC__)
  emulator::fence_products(emulator::Site::current());
#endif
}

/// Makes a group of the products that were started since the last one.
__device__ inline void wgmma_commit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#elif defined(__CUDA_ARCH__)
  __trap();
#elif !defined(__CUDACC__)
  emulator::commit_products(emulator::Site::current());
#endif
}

/// Waits until at most the last kPending groups are not complete. `c` are the accumulators of one
/// of the others: the compiler must not move their uses to before the wait.
template <int kPending, int kRows, int kCount>
__device__ void wgmma_wait(float (&c)[kRows][kCount]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) asm volatile("" : "+f"(c[i][j])::"memory");
  }
#elif defined(__CUDA_ARCH__)
  __trap();
#elif !defined(__CUDACC__)
  static_cast<void>(c);
  emulator::wait_for_products(kPending, emulator::Site::current());
#endif
}

// Columns j to j + 7 of C.
#define TESSERA_COLUMNS(j) \
  "+f"(c0[(j) / 4]), "+f"(c0[(j) / 4 + 1]), "+f"(c1[(j) / 4]), "+f"(c1[(j) / 4 + 1])
#define TESSERA_COLUMNS_32 \
  TESSERA_COLUMNS(0), TESSERA_COLUMNS(8), TESSERA_COLUMNS(16), TESSERA_COLUMNS(24)
#define TESSERA_COLUMNS_64                                                           \
  TESSERA_COLUMNS_32, TESSERA_COLUMNS(32), TESSERA_COLUMNS(40), TESSERA_COLUMNS(48), \
      TESSERA_COLUMNS(56)
#define TESSERA_C_32 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define TESSERA_C_64                                                                  \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
  "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"

/// Starts C += A B, or C = A B, with A in registers. `c0` and `c1` are the lane's columns of its
/// two rows. B is described as columns, one per row of the tile or, kTransposed, as rows.
template <int kN, bool kTransposed>
__device__ __forceinline__ void wgmma(float* c0, float* c1, const uint32_t (&a)[4], uint64_t b,
                                      bool adds) {
  static_assert(kN == 32 || kN == 64);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (kN == 32) {
    asm volatile(
        "{\n.reg .pred adds;\nsetp.ne.b32 adds, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 " TESSERA_C_32
        ", {%16, %17, %18, %19}, %20, adds, 1, 1, %22;\n}"
        : TESSERA_COLUMNS_32
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1 : 0), "n"(kTransposed)
        : "memory");
  } else {
    asm volatile(
        "{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " TESSERA_C_64
        ", {%32, %33, %34, %35}, %36, adds, 1, 1, %38;\n}"
        : TESSERA_COLUMNS_64
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1 : 0), "n"(kTransposed)
        : "memory");
  }
#elif defined(__CUDA_ARCH__)
  __trap();
#elif !defined(__CUDACC__)
  emulator::start_product({{c0, c1}, kN, true, {a[0], a[1], a[2], a[3]}, 0, b, kTransposed, adds},
                          emulator::Site::current());
#endif
}

/// The same with A in shared memory, described as rows of the tile. B is described as columns.
template <int kN>
__device__ __forceinline__ void wgmma(float* c0, float* c1, uint64_t a, uint64_t b, bool adds) {
  static_assert(kN == 32 || kN == 64);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (kN == 32) {
    asm volatile(
        "{\n.reg .pred adds;\nsetp.ne.b32 adds, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 " TESSERA_C_32
        ", %16, %17, adds, 1, 1, 0, 0;\n}"
        : TESSERA_COLUMNS_32
        : "l"(a), "l"(b), "r"(adds ? 1 : 0)
        : "memory");
  } else {
    asm volatile(
        "{\n.reg .pred adds;\nsetp.ne.b32 adds, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " TESSERA_C_64
        ", %32, %33, adds, 1, 1, 0, 0;\n}"
        : TESSERA_COLUMNS_64
        : "l"(a), "l"(b), "r"(adds ? 1 : 0)
        : "memory");
  }
#elif defined(__CUDA_ARCH__)
  __trap();
#elif !defined(__CUDACC__)
  emulator::start_product({{c0, c1}, kN, false, {}, a, b, false, adds}, emulator::Site::current());
#endif
}

#undef TESSERA_COLUMNS
#undef TESSERA_COLUMNS_32
#undef TESSERA_COLUMNS_64
#undef TESSERA_C_32
#undef TESSERA_C_64

/// Stores to a tile of products.
__device__ inline void store_shared(bfloat16* to, bfloat16 x) {
  *to = x;
#ifndef __CUDACC__
  emulator::wrote_shared(to, sizeof(x));
#endif
}

}  // namespace tessera::cuda
