#include <immintrin.h>

#include <cstring>

#include "core/checked.h"
#include "core/ops/cpu/matmul/bf16_target.h"
#include "core/ops/cpu/matmul/bf16_tiles.h"

namespace tessera::cpu {
namespace {

/// Eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_a_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// Instructions name the tiles: 0 to 3 are sums, 4 and 5 rows of the left operand, 6 and 7 columns
// of the right one.
template <int kRowTiles, int kColTiles>
TESSERA_AMX void amx_block(int64_t k, const bfloat16* left, int64_t lda, const bfloat16* right,
                           int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  const int64_t c_stride = ldc * 4, left_stride = lda * 2, right_stride = ldb * 4;
  float* below = c + 16 * ldc;
  if (accumulate) {
    _tile_loadd(0, c, c_stride);
    if constexpr (kColTiles > 1) _tile_loadd(1, c + 16, c_stride);
    if constexpr (kRowTiles > 1) _tile_loadd(2, below, c_stride);
    if constexpr (kRowTiles > 1 && kColTiles > 1) _tile_loadd(3, below + 16, c_stride);
  } else {
    _tile_zero(0);
    if constexpr (kColTiles > 1) _tile_zero(1);
    if constexpr (kRowTiles > 1) _tile_zero(2);
    if constexpr (kRowTiles > 1 && kColTiles > 1) _tile_zero(3);
  }
  for (int64_t i = 0; i < k; i += kBf16Depth) {
    const bfloat16* rows = left + i;
    const bfloat16* cols = right + i * ldb;
    _tile_loadd(4, rows, left_stride);
    _tile_loadd(6, cols, right_stride);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kColTiles > 1) {
      _tile_loadd(7, cols + 32, right_stride);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRowTiles > 1) {
      _tile_loadd(5, rows + 16 * lda, left_stride);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kRowTiles > 1 && kColTiles > 1) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_stride);
  if constexpr (kColTiles > 1) _tile_stored(1, c + 16, c_stride);
  if constexpr (kRowTiles > 1) _tile_stored(2, below, c_stride);
  if constexpr (kRowTiles > 1 && kColTiles > 1) _tile_stored(3, below + 16, c_stride);
}

template <int kRowTiles>
TESSERA_AMX void amx_rows(int64_t n, int64_t k, const bfloat16* left, int64_t lda,
                          const bfloat16* right, int64_t ldb, float* c, int64_t ldc,
                          bool accumulate) {
  int64_t j = 0;
  for (; j + 32 <= n; j += 32) {
    amx_block<kRowTiles, 2>(k, left, lda, right + 2 * j, ldb, c + j, ldc, accumulate);
  }
  if (j < n) amx_block<kRowTiles, 1>(k, left, lda, right + 2 * j, ldb, c + j, ldc, accumulate);
}

TESSERA_AMX void amx_multiply(int64_t m, int64_t n, int64_t k, const bfloat16* left, int64_t lda,
                              const bfloat16* right, int64_t ldb, float* c, int64_t ldc,
                              bool accumulate) {
  // The compiler does not know that tiles are loaded from and stored to memory.
  asm volatile("" ::: "memory");
  int64_t i = 0;
  for (; i + 32 <= m; i += 32) {
    amx_rows<2>(n, k, left + i * lda, lda, right, ldb, c + i * ldc, ldc, accumulate);
  }
  if (i < m) amx_rows<1>(n, k, left + i * lda, lda, right, ldb, c + i * ldc, ldc, accumulate);
  asm volatile("" ::: "memory");
}

template <int kRows, int kVectors>
TESSERA_AVX512_BF16 inline void dot_block(int64_t k, const bfloat16* left, int64_t lda,
                                          const bfloat16* right, int64_t ldb, float* c, int64_t ldc,
                                          bool accumulate) {
  __m512 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = accumulate ? _mm512_loadu_ps(c + r * ldc + v * 16) : _mm512_setzero_ps();
    }
  }
  for (int64_t i = 0; i < k; i += 2) {
    __m512i cols[kVectors];
    for (int v = 0; v < kVectors; ++v) cols[v] = _mm512_loadu_si512(right + i * ldb + v * 32);
    for (int r = 0; r < kRows; ++r) {
      int32_t pair = 0;
      std::memcpy(&pair, left + r * lda + i, sizeof pair);
      const __m512i row = _mm512_set1_epi32(pair);
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = _mm512_dpbf16_ps(sum[r][v], reinterpret_cast<__m512bh>(row),
                                     reinterpret_cast<__m512bh>(cols[v]));
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + r * ldc + v * 16, sum[r][v]);
  }
}

TESSERA_AVX512_BF16 void dot_multiply(int64_t m, int64_t n, int64_t k, const bfloat16* left,
                                      int64_t lda, const bfloat16* right, int64_t ldb, float* c,
                                      int64_t ldc, bool accumulate) {
  for (int64_t i = 0; i < m; i += 4) {  // m is a multiple of 16
    const bfloat16* rows = left + i * lda;
    float* to = c + i * ldc;
    int64_t j = 0;
    for (; j + 64 <= n; j += 64) {
      dot_block<4, 4>(k, rows, lda, right + 2 * j, ldb, to + j, ldc, accumulate);
    }
    for (; j < n; j += 16) {
      dot_block<4, 1>(k, rows, lda, right + 2 * j, ldb, to + j, ldc, accumulate);
    }
  }
}

}  // namespace

// Restores the configuration: oneDNN uses the same tiles and may rely on its own.
Bf16TileScope::Bf16TileScope() : amx_(bf16_unit() == Bf16Unit::amx) {
  if (!amx_) return;
  static const TileConfig config;
  asm volatile("sttilecfg %0" : "=m"(before_));
  asm volatile("ldtilecfg %0" ::"m"(config));
}

Bf16TileScope::~Bf16TileScope() {
  if (amx_) asm volatile("ldtilecfg %0" ::"m"(before_));
}

void bf16_multiply(int64_t m, int64_t n, int64_t k, const bfloat16* left, int64_t lda,
                   const bfloat16* right, int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  m = round_up(m, kBf16Rows);
  n = round_up(n, kBf16Rows);
  k = round_up(k, kBf16Depth);
  const auto multiply = bf16_unit() == Bf16Unit::amx ? amx_multiply : dot_multiply;
  multiply(m, n, k, left, lda, right, ldb, c, ldc, accumulate);
}

}  // namespace tessera::cpu
