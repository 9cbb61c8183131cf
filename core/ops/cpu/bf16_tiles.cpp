#include "core/ops/cpu/bf16_tiles.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/checked.h"

// GCC 12 takes what its own intrinsics leave undefined on purpose for a mistake (GCC bug 105593).
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// These functions are compiled for processors that this program may not run on; bf16_unit() says.
#define TESSERA_AMX [[gnu::target("amx-tile,amx-bf16")]]
#define TESSERA_AVX512_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]]

namespace tessera::cpu {
namespace {

/// Linux gives a process AMX's tiles when it asks for them.
bool amx_is_granted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// What the environment leaves, in oneDNN's words: ALL, AVX2, AVX512_CORE_BF16, AVX512_CORE_AMX,
/// ...
Bf16Unit limit() {
  const char* set = std::getenv("ONEDNN_MAX_CPU_ISA");
  std::string isa = set == nullptr ? "ALL" : set;
  for (char& c : isa) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto has = [&](const char* word) { return isa.find(word) != std::string::npos; };
  if (isa == "ALL" || isa == "DEFAULT" || has("AMX")) return Bf16Unit::amx;
  return has("BF16") || has("FP16") || has("AVX10") ? Bf16Unit::avx512 : Bf16Unit::none;
}

Bf16Unit find_unit() {
  __builtin_cpu_init();
  const bool has_avx512 = __builtin_cpu_supports("avx512bf16") &&
                          __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (!has_avx512 || limit() == Bf16Unit::none) return Bf16Unit::none;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  const bool has_amx = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
                       (edx & kAmxBf16) != 0 && (edx & kAmxTile) != 0;
  return has_amx && limit() == Bf16Unit::amx && amx_is_granted() ? Bf16Unit::amx : Bf16Unit::avx512;
}

/// Eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_a_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// The tiles are named in the instructions themselves: 0 to 3 hold sums, 4 and 5 rows of the left
// operand, 6 and 7 columns of the right one.
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
  // The compiler does not know that tiles are loaded from memory and stored to it.
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

void zero(bfloat16* from, int64_t count) {
  std::memset(from, 0, static_cast<size_t>(count) * sizeof(bfloat16));
}

/// The lanes of a vector of 16 in which there are the first of `count` elements.
__mmask16 first_of_16(int64_t count) {
  return static_cast<__mmask16>(count < 16 ? (1u << count) - 1 : 0xffffu);
}

/// Rows of a right operand: two rows of bf16, element by element. `b` null stands for zeros.
TESSERA_AVX512_BF16 inline void interleave(const bfloat16* a, const bfloat16* b, int64_t n,
                                           bfloat16* to) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 mask = first_of_16(n - i);
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, a + i));
    __m512i high = _mm512_setzero_si512();
    if (b != nullptr) high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, b + i));
    const __m512i pairs = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
    _mm512_mask_storeu_epi32(to + 2 * i, mask, pairs);
  }
}

/// 16 × 16 words, as far as `rows` and `cols` go, zeros beyond, as columns.
TESSERA_AVX512_BF16 void transpose_words(const bfloat16* source, int64_t stride, int64_t rows,
                                         int64_t cols, bfloat16* to, int64_t ld) {
  const auto seen = static_cast<__mmask32>(cols < 32 ? (uint64_t{1} << cols) - 1 : 0xffffffffu);
  __m512i in[16], out[16];
  for (int r = 0; r < 16; ++r) {
    in[r] = r < rows ? _mm512_maskz_loadu_epi16(seen, source + r * stride) : _mm512_setzero_si512();
  }
  // Words, pairs of words and quarters change places, in turn.
  for (int r = 0; r < 16; r += 2) {
    out[r] = _mm512_unpacklo_epi32(in[r], in[r + 1]);
    out[r + 1] = _mm512_unpackhi_epi32(in[r], in[r + 1]);
  }
  for (int r = 0; r < 16; r += 4) {
    in[r] = _mm512_unpacklo_epi64(out[r], out[r + 2]);
    in[r + 1] = _mm512_unpackhi_epi64(out[r], out[r + 2]);
    in[r + 2] = _mm512_unpacklo_epi64(out[r + 1], out[r + 3]);
    in[r + 3] = _mm512_unpackhi_epi64(out[r + 1], out[r + 3]);
  }
  // in[4 g + i] holds words i, i + 4, i + 8 and i + 12 of rows 4 g to 4 g + 3.
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(in[i], in[4 + i], 0x88);
    const __m512i b = _mm512_shuffle_i32x4(in[i], in[4 + i], 0xdd);
    const __m512i c = _mm512_shuffle_i32x4(in[8 + i], in[12 + i], 0x88);
    const __m512i d = _mm512_shuffle_i32x4(in[8 + i], in[12 + i], 0xdd);
    out[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    out[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
    out[i + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
    out[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
  for (int w = 0; w < 16; ++w) _mm512_storeu_si512(to + w * ld * 2, out[w]);
}

TESSERA_AVX512_BF16 inline __m512i rounded(const float* from) {
  return _mm512_cvtepu16_epi32(
      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(from))));
}

}  // namespace

Bf16Unit bf16_unit() {
  static const Bf16Unit found = find_unit();
  return found;
}

// oneDNN, which shares the tiles, may count on its configuration being there still.
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

void bf16_left(const bfloat16* source, int64_t stride, int64_t rows, int64_t d, bfloat16* tile,
               int64_t ld) {
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(tile + r * ld, source + r * stride, static_cast<size_t>(d) * sizeof(bfloat16));
    zero(tile + r * ld + d, ld - d);
  }
}

// Two rows element by element are words, of which the columns are wanted.
TESSERA_AVX512_BF16 void bf16_left_transposed(const bfloat16* source, int64_t stride, int64_t rows,
                                              int64_t d, bfloat16* tile, int64_t ld) {
  bfloat16 pairs[16 * 32];
  for (int64_t r = 0; r < rows; r += 32) {
    for (int64_t i = 0; i < d; i += 16) {
      const int64_t cols = std::min<int64_t>(16, d - i);
      for (int64_t pair = 0; pair < 16; ++pair) {
        const int64_t row = r + 2 * pair;
        bfloat16* to = pairs + pair * 32;
        zero(to, 32);
        if (row >= rows) continue;
        const bfloat16* next = row + 1 < rows ? source + (row + 1) * stride + i : nullptr;
        interleave(source + row * stride + i, next, cols, to);
      }
      transpose_words(pairs, 32, 16, 32, tile + i * ld + r, ld / 2);
    }
  }
}

TESSERA_AVX512_BF16 void bf16_right(const bfloat16* source, int64_t stride, int64_t rows, int64_t d,
                                    bfloat16* tile, int64_t ld) {
  const int64_t padded = round_up(rows, kBf16Depth);
  int64_t r = 0;
  for (; r < rows; r += 2) {
    const bfloat16* next = r + 1 < rows ? source + (r + 1) * stride : nullptr;
    interleave(source + r * stride, next, d, tile + r * ld);
    zero(tile + r * ld + 2 * d, 2 * (ld - d));
  }
  if (r < padded) zero(tile + r * ld, (padded - r) * ld);
}

TESSERA_AVX512_BF16 void bf16_right_transposed(const bfloat16* source, int64_t stride, int64_t rows,
                                               int64_t d, bfloat16* tile, int64_t ld) {
  for (int64_t i = 0; i < d; i += kBf16Depth) {
    for (int64_t r = 0; r < rows; r += 16) {
      transpose_words(source + r * stride + i, stride, rows - r, d - i, tile + i * ld + 2 * r, ld);
    }
  }
}

TESSERA_AVX512_BF16 void bf16_left(const float* source, int64_t stride, int64_t rows, int64_t cols,
                                   bfloat16* tile, int64_t ld) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; c += 16) {
      const __m256bh half = _mm512_cvtneps_pbh(_mm512_loadu_ps(source + r * stride + c));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile + r * ld + c),
                          reinterpret_cast<__m256i>(half));
    }
    zero(tile + r * ld + cols, round_up(cols, kBf16Depth) - cols);
  }
}

TESSERA_AVX512_BF16 void bf16_right(const float* source, int64_t stride, int64_t rows, int64_t cols,
                                    bfloat16* tile, int64_t ld) {
  const int64_t padded = round_up(rows, kBf16Depth);
  for (int64_t r = 0; r < padded; r += 2) {
    for (int64_t c = 0; c < cols; c += 16) {
      const float* from = source + r * stride + c;
      const __m512i low = r < rows ? rounded(from) : _mm512_setzero_si512();
      const __m512i high = r + 1 < rows ? rounded(from + stride) : _mm512_setzero_si512();
      _mm512_storeu_si512(tile + r * ld + 2 * c, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

TESSERA_AVX512_BF16 void bf16_store(const float* tile, int64_t ld, int64_t rows, int64_t d,
                                    float scale, bfloat16* target, int64_t stride) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < d; i += 16) {
      const __m512 row = _mm512_maskz_loadu_ps(first_of_16(d - i), tile + r * ld + i);
      _mm256_mask_storeu_epi16(
          target + r * stride + i, first_of_16(d - i),
          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_mul_ps(row, factor))));
    }
  }
}

TESSERA_AVX512_BF16 void bf16_store_transposed(const float* tile, int64_t ld, int64_t rows,
                                               int64_t d, float scale, bfloat16* target,
                                               int64_t stride) {
  const __m512i places =
      _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                         _mm512_set1_epi32(static_cast<int32_t>(ld)));
  const __m512 factor = _mm512_set1_ps(scale);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < d; i += 16) {
      const __m512 column = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), first_of_16(d - i),
                                                     places, tile + i * ld + r, sizeof(float));
      _mm256_mask_storeu_epi16(
          target + r * stride + i, first_of_16(d - i),
          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_mul_ps(column, factor))));
    }
  }
}

}  // namespace tessera::cpu
