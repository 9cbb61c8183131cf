#pragma once

#include <algorithm>
#include <cstdint>

#include "core/checked.h"
#include "core/dtype.h"
#include "core/ops/cpu/matmul/bf16_tiles.h"
#include "core/ops/cpu/matmul/tile_gemm.h"

namespace tessera::cpu {

/// How attention multiplies its tiles: in fp32, whatever the tensors' dtype, or in bf16 with fp32
/// sums. Operands are packed as the products need them. Summed extents are padded to kDepth with
/// zeros; tiles have room for multiples of kTilePadding rows and columns.
template <typename Element>
struct TileProducts;

template <>
struct TileProducts<float> {
  using Element = float;
  static constexpr int64_t kDepth = 1;
  /// The width of tiles for rows of d elements.
  static int64_t padded(int64_t d) { return round_up(d, kTilePadding); }
  using Left = StridedTile;

  /// State that a thread needs during its products.
  struct Scope {};

  template <typename T>
  static void load_rows(const T* source, int64_t stride, int64_t rows, int64_t d, float* tile,
                        int64_t ld) {
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = source + r * stride;
      float* to = tile + r * ld;
#pragma omp simd
      for (int64_t i = 0; i < d; ++i) to[i] = static_cast<float>(from[i]);
      for (int64_t i = d; i < ld; ++i) to[i] = 0.0f;
    }
  }

  /// Left operand (rows, D).
  template <typename T>
  static void load_left(const T* source, int64_t stride, int64_t rows, int64_t d, float* tile,
                        int64_t ld) {
    load_rows(source, stride, rows, d, tile, ld);
  }
  static Left left(const float* tile, int64_t ld) { return {tile, ld, 1}; }

  /// Right operand (rows, D).
  template <typename T>
  static void load_right(const T* source, int64_t stride, int64_t rows, int64_t d, float* tile,
                         int64_t ld) {
    load_rows(source, stride, rows, d, tile, ld);
  }

  /// Right operand (D, rows), with zeros up to the padded columns.
  template <typename T>
  static void load_right_transposed(const T* source, int64_t stride, int64_t rows, int64_t d,
                                    float* tile, int64_t ld) {
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = source + r * stride;
      for (int64_t i = 0; i < d; ++i) tile[i * ld + r] = static_cast<float>(from[i]);
    }
    for (int64_t r = rows; r < round_up(rows, kTilePadding); ++r) {
      for (int64_t i = 0; i < d; ++i) tile[i * ld + r] = 0.0f;
    }
  }

  /// fp32 numbers as an operand. `room`, of the same extents, is used if they must be converted.
  static const float* as_left(const float* tile, int64_t, int64_t, int64_t, float*) { return tile; }
  static const float* as_right(const float* tile, int64_t, int64_t, int64_t, float*) {
    return tile;
  }

  /// c (m, n) = left (m, k) right (k, n), or c += left right.
  static void multiply(int64_t m, int64_t n, int64_t k, Left left, const float* right, int64_t ldb,
                       float* c, int64_t ldc, bool accumulate) {
    tile_gemm(m, n, k, left, right, ldb, c, ldc, accumulate);
  }

  /// target rows = the tile's rows × scale.
  template <typename T>
  static void store(const float* tile, int64_t ld, int64_t rows, int64_t d, float scale, T* target,
                    int64_t stride) {
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = tile + r * ld;
      T* to = target + r * stride;
#pragma omp simd
      for (int64_t i = 0; i < d; ++i) to[i] = static_cast<T>(from[i] * scale);
    }
  }

  /// target rows = the tile's columns × scale.
  template <typename T>
  static void store_transposed(const float* tile, int64_t ld, int64_t rows, int64_t d, float scale,
                               T* target, int64_t stride) {
    for (int64_t r = 0; r < rows; ++r) {
      T* to = target + r * stride;
#pragma omp simd
      for (int64_t i = 0; i < d; ++i) to[i] = static_cast<T>(tile[i * ld + r] * scale);
    }
  }
};

template <>
struct TileProducts<bfloat16> {
  using Element = bfloat16;
  static constexpr int64_t kDepth = kBf16Depth;
  static int64_t padded(int64_t d) { return round_up(d, kBf16Depth); }
  struct Left {
    const bfloat16* data;
    int64_t ld;
  };
  using Scope = Bf16TileScope;

  static void load_left(const bfloat16* source, int64_t stride, int64_t rows, int64_t d,
                        bfloat16* tile, int64_t ld) {
    bf16_left(source, stride, rows, d, tile, ld);
  }
  static Left left(const bfloat16* tile, int64_t ld) { return {tile, ld}; }
  static void load_right(const bfloat16* source, int64_t stride, int64_t rows, int64_t d,
                         bfloat16* tile, int64_t ld) {
    bf16_right(source, stride, rows, d, tile, ld);
  }
  static void load_right_transposed(const bfloat16* source, int64_t stride, int64_t rows, int64_t d,
                                    bfloat16* tile, int64_t ld) {
    bf16_right_transposed(source, stride, rows, d, tile, ld);
  }
  static const bfloat16* as_left(const float* tile, int64_t rows, int64_t cols, int64_t ld,
                                 bfloat16* room) {
    bf16_left(tile, ld, rows, cols, room, ld);
    return room;
  }
  static const bfloat16* as_right(const float* tile, int64_t rows, int64_t cols, int64_t ld,
                                  bfloat16* room) {
    bf16_right(tile, ld, rows, cols, room, ld);
    return room;
  }
  static void multiply(int64_t m, int64_t n, int64_t k, Left left, const bfloat16* right,
                       int64_t ldb, float* c, int64_t ldc, bool accumulate) {
    bf16_multiply(m, n, k, left.data, left.ld, right, ldb, c, ldc, accumulate);
  }
  static void store(const float* tile, int64_t ld, int64_t rows, int64_t d, float scale,
                    bfloat16* target, int64_t stride) {
    bf16_store(tile, ld, rows, d, scale, target, stride);
  }
  static void store_transposed(const float* tile, int64_t ld, int64_t rows, int64_t d, float scale,
                               bfloat16* target, int64_t stride) {
    bf16_store_transposed(tile, ld, rows, d, scale, target, stride);
  }
};

/// The transpose (D, rows) of rows as a left operand: the rows' own tile read by columns where
/// possible, otherwise a tile of its own.
template <typename Element>
class TransposedLeft;

template <>
class TransposedLeft<float> {
 public:
  static int64_t elements(int64_t, int64_t) { return 0; }
  template <typename T>
  void load(const T*, int64_t, int64_t, int64_t, const float* rows, int64_t ld, float*) {
    rows_ = rows;
    ld_ = ld;
  }
  /// The operand from column `begin` on.
  StridedTile from(int64_t begin) const { return {rows_ + begin * ld_, 1, ld_}; }

 private:
  const float* rows_ = nullptr;
  int64_t ld_ = 0;
};

template <>
class TransposedLeft<bfloat16> {
 public:
  /// The size of its tile.
  static int64_t elements(int64_t rows, int64_t ld) { return ld * round_up(rows, kBf16Depth); }
  void load(const bfloat16* source, int64_t stride, int64_t rows, int64_t d, const bfloat16*,
            int64_t, bfloat16* tile) {
    tile_ = tile;
    ld_ = round_up(rows, kBf16Depth);
    bf16_left_transposed(source, stride, rows, d, tile, ld_);
  }
  TileProducts<bfloat16>::Left from(int64_t begin) const { return {tile_ + begin, ld_}; }

 private:
  const bfloat16* tile_ = nullptr;
  int64_t ld_ = 0;
};

}  // namespace tessera::cpu
