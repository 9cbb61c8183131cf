#pragma once

#include <cstdint>

namespace tessera::cpu {

/// Small fp32 matrix products on tiles in the cache, for attention.

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
inline constexpr int kTileVectors = 4;  // 6 × 4 sums, 4 loads and 1 broadcast fill 32 registers
#else
inline constexpr int kLanes = 8;
inline constexpr int kTileVectors = 2;  // 6 × 2 sums, 2 loads and 1 broadcast fill 16 registers
#endif
inline constexpr int kTileRows = 6;
/// Rows of b and c are padded to a multiple of this many floats.
inline constexpr int64_t kTilePadding = 16;

using Lanes [[gnu::vector_size(kLanes * sizeof(float)), gnu::aligned(4), gnu::may_alias]] = float;

/// A matrix that is read by single elements, with any strides.
struct StridedTile {
  const float* data;
  int64_t row_stride;
  int64_t col_stride;
};

template <int kRows, int kVectors>
[[gnu::always_inline]] inline void gemm_block(int64_t k, StridedTile a, const float* b, int64_t ldb,
                                              float* c, int64_t ldc, bool accumulate) {
  Lanes sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const Lanes* from = reinterpret_cast<const Lanes*>(c + r * ldc + v * kLanes);
      sum[r][v] = accumulate ? *from : Lanes{};
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    Lanes row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      row[v] = *reinterpret_cast<const Lanes*>(b + i * ldb + v * kLanes);
    }
    for (int r = 0; r < kRows; ++r) {
      const float factor = a.data[r * a.row_stride + i * a.col_stride];
      for (int v = 0; v < kVectors; ++v) sum[r][v] += factor * row[v];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Lanes*>(c + r * ldc + v * kLanes) = sum[r][v];
    }
  }
}

template <int kVectors>
[[gnu::always_inline]] inline void gemm_columns(int64_t m, int64_t k, StridedTile a, const float* b,
                                                int64_t ldb, float* c, int64_t ldc,
                                                bool accumulate) {
  int64_t i = 0;
  const auto rows_from = [&](int64_t r) {
    return StridedTile{a.data + r * a.row_stride, a.row_stride, a.col_stride};
  };
  for (; i + kTileRows <= m; i += kTileRows) {
    gemm_block<kTileRows, kVectors>(k, rows_from(i), b, ldb, c + i * ldc, ldc, accumulate);
  }
  for (; i + 2 <= m; i += 2) {
    gemm_block<2, kVectors>(k, rows_from(i), b, ldb, c + i * ldc, ldc, accumulate);
  }
  if (i < m) gemm_block<1, kVectors>(k, rows_from(i), b, ldb, c + i * ldc, ldc, accumulate);
}

/// The last columns of a product, fewer than a wide block. Not inlined: it is rare with full tiles,
/// and would keep the wide blocks from being inlined.
[[gnu::noinline]] inline void gemm_rest(int64_t vectors, int64_t m, int64_t k, StridedTile a,
                                        const float* b, int64_t ldb, float* c, int64_t ldc,
                                        bool accumulate) {
  if (vectors == 3) gemm_columns<3>(m, k, a, b, ldb, c, ldc, accumulate);
  if (vectors == 2) gemm_columns<2>(m, k, a, b, ldb, c, ldc, accumulate);
  if (vectors == 1) gemm_columns<1>(m, k, a, b, ldb, c, ldc, accumulate);
}

/// c (m, n) = a (m, k) b (k, n), or c += a b. n is rounded up to a multiple of kTilePadding: the
/// rows of b and c are at least that long, and the columns beyond n are computed too.
[[gnu::always_inline]] inline void tile_gemm(int64_t m, int64_t n, int64_t k, StridedTile a,
                                             const float* b, int64_t ldb, float* c, int64_t ldc,
                                             bool accumulate) {
  constexpr int64_t kWide = int64_t{kTileVectors} * kLanes;
  n = (n + kTilePadding - 1) / kTilePadding * kTilePadding;
  int64_t j = 0;
  for (; j + kWide <= n; j += kWide) {
    gemm_columns<kTileVectors>(m, k, a, b + j, ldb, c + j, ldc, accumulate);
  }
  const int64_t vectors = (n - j) / kLanes;
  if (vectors > 0) gemm_rest(vectors, m, k, a, b + j, ldb, c + j, ldc, accumulate);
}

}  // namespace tessera::cpu
