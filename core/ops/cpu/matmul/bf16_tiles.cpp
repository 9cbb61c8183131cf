#include "core/ops/cpu/matmul/bf16_tiles.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/ops/cpu/matmul/bf16_target.h"

namespace tessera::cpu {
namespace {

void zero(bfloat16* from, int64_t count) {
  std::memset(from, 0, static_cast<size_t>(count) * sizeof(bfloat16));
}

/// A mask of the first `count` of 16 lanes.
__mmask16 first_of_16(int64_t count) {
  return static_cast<__mmask16>(count < 16 ? (1u << count) - 1 : 0xffffu);
}

/// Rows of a right operand: two rows of bf16, interleaved. A null `b` stands for zeros.
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

/// Transposes 16 × 16 words, of which `rows` × `cols` exist; the others are zeros.
TESSERA_AVX512_BF16 void transpose_words(const bfloat16* source, int64_t stride, int64_t rows,
                                         int64_t cols, bfloat16* to, int64_t ld) {
  const auto seen = static_cast<__mmask32>(cols < 32 ? (uint64_t{1} << cols) - 1 : 0xffffffffu);
  __m512i in[16], out[16];
  for (int r = 0; r < 16; ++r) {
    in[r] = r < rows ? _mm512_maskz_loadu_epi16(seen, source + r * stride) : _mm512_setzero_si512();
  }
  // Exchanges words, then pairs of words, then quarters.
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

void bf16_left(const bfloat16* source, int64_t stride, int64_t rows, int64_t d, bfloat16* tile,
               int64_t ld) {
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(tile + r * ld, source + r * stride, static_cast<size_t>(d) * sizeof(bfloat16));
    zero(tile + r * ld + d, ld - d);
  }
}

// Two interleaved rows are words, whose columns are needed.
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
