#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/ops/cpu/matmul/bf16_unit.h"

/// Products of small bf16 matrices with fp32 sums, for attention: on AMX tiles or with AVX-512's
/// dot products of pairs. The two differ in the last bits of a sum.
///
/// A left operand is row-major. A right operand (k, n) interleaves its rows in pairs: element (i,
/// j) is at [(i / 2) × ld + j][i % 2]. Extents are padded: the summed extent to kBf16Depth, with
/// zeros; rows of a left operand and columns of a right one to kBf16Rows, with any finite numbers.
namespace tessera::cpu {

inline constexpr int64_t kBf16Depth = 32;
inline constexpr int64_t kBf16Rows = 16;

/// Configures the AMX tiles for the calling thread's products, if bf16_unit() uses them, and
/// restores their configuration at the end.
class Bf16TileScope {
 public:
  Bf16TileScope();
  ~Bf16TileScope();
  Bf16TileScope(const Bf16TileScope&) = delete;
  Bf16TileScope& operator=(const Bf16TileScope&) = delete;

 private:
  bool amx_;
  alignas(64) uint8_t before_[64];
};

/// c (m, n) = left (m, k) right (k, n), or c += left right, within a Bf16TileScope. m and n are
/// rounded up to kBf16Rows, k to kBf16Depth.
void bf16_multiply(int64_t m, int64_t n, int64_t k, const bfloat16* left, int64_t lda,
                   const bfloat16* right, int64_t ldb, float* c, int64_t ldc, bool accumulate);

/// tile = the source's rows, d columns each, as a left operand, with zeros up to `ld` columns.
void bf16_left(const bfloat16* source, int64_t stride, int64_t rows, int64_t d, bfloat16* tile,
               int64_t ld);

/// tile (D, rows) = the transposed source rows, as a left operand, with zeros up to the padded
/// columns. `d` is rounded up to a multiple of 16, and `ld` is a multiple of kBf16Depth.
void bf16_left_transposed(const bfloat16* source, int64_t stride, int64_t rows, int64_t d,
                          bfloat16* tile, int64_t ld);

/// tile (rows, D) = the source's rows, as a right operand, with zeros up to the padded rows and
/// `ld` columns.
void bf16_right(const bfloat16* source, int64_t stride, int64_t rows, int64_t d, bfloat16* tile,
                int64_t ld);

/// tile (D, rows) = the transposed source rows, as a right operand, with zeros up to the padded
/// rows and columns.
void bf16_right_transposed(const bfloat16* source, int64_t stride, int64_t rows, int64_t d,
                           bfloat16* tile, int64_t ld);

/// bf16_left() for fp32 numbers, rounded to nearest. `cols` is a multiple of 16, with zeros beyond
/// it up to a multiple of kBf16Depth.
void bf16_left(const float* source, int64_t stride, int64_t rows, int64_t cols, bfloat16* tile,
               int64_t ld);
void bf16_right(const float* source, int64_t stride, int64_t rows, int64_t cols, bfloat16* tile,
                int64_t ld);

/// target rows = the tile's rows, or its columns, × scale, rounded to nearest.
void bf16_store(const float* tile, int64_t ld, int64_t rows, int64_t d, float scale,
                bfloat16* target, int64_t stride);
void bf16_store_transposed(const float* tile, int64_t ld, int64_t rows, int64_t d, float scale,
                           bfloat16* target, int64_t stride);

}  // namespace tessera::cpu
