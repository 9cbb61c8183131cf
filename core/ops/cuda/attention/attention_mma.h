#pragma once

#include "core/cuda/mma.h"
#include "core/ops/cuda/attention/attention_tile_mask.h"
#include "core/ops/cuda/attention/attention_warp_tiles.h"

namespace tessera::cuda {

/// Tile products on tensor cores, for bf16 and heads of up to kDims_ columns; the interface of
/// FmaTiles. A warp has 16 rows of a tile; four neighboring lanes share rows g and g + 8, with the
/// columns of core/cuda/mma.h. Weights are rounded to bf16 and stay in registers: C of the first
/// product has the layout of A of the second.
template <int kDims_, int kColumns_>
struct MmaTiles : WarpTiles<bfloat16, kDims_ + 8> {
  using Element = bfloat16;
  using Stored = bfloat16;
  static constexpr int kDims = kDims_, kRows = 16 * kAttentionWarps, kColumns = kColumns_;
  static_assert(kDims % 16 == 0 && kColumns % 32 == 0);
  /// The stride of rows of a tile: 16 bytes of padding put 8 rows of 16 bytes into different banks.
  static constexpr int kStride = kDims + 8;
  static constexpr int kRowLanes = 4;
  /// The number of tiles of columns in shared memory: the next is loaded meanwhile.
  static constexpr int kStages = 2;
  /// Blocks that a multiprocessor must have registers for. Measured on an H200 for 64 columns: more
  /// hide more latency until spills cost more.
  static constexpr int kForwardBlocks = kDims <= 64 ? 4 : 2;
  static constexpr int kKeysBlocks = kDims <= 64 ? 3 : 2, kQueriesBlocks = kDims <= 32 ? 4 : 3;
  static constexpr int kMyRows = 2, kMyColumns = kColumns / 4, kMySums = kDims / 4;

  struct Scores {
    float at[kMyRows][kMyColumns];
  };
  struct Sums {
    float at[kMyRows][kMySums] = {};
  };
  struct Exchange {};  ///< lanes need not exchange weights

  __device__ static int row(int i) {
    return 16 * warp_of_thread() + lane_of_thread() / kRowLanes + 8 * i;
  }
  __device__ static int lane_column() { return 2 * (lane_of_thread() % kRowLanes); }
  static constexpr __device__ int column(int j) { return 8 * (j / 2) + j % 2; }
  __device__ static int sum_column(int j) { return lane_column() + column(j); }

  __device__ static void store(bfloat16* to, float x) { *to = from_float<bfloat16>(x); }

  /// scores = rows columnsᵀ of tiles (kRows, D) and (kColumns, D).
  __device__ static void multiply(const bfloat16* rows, const bfloat16* columns, Scores& scores) {
    const int lane = lane_of_thread();
#pragma unroll
    for (int i = 0; i < kMyRows; ++i) {
#pragma unroll
      for (int j = 0; j < kMyColumns; ++j) scores.at[i][j] = 0.0f;
    }
    const bfloat16* row = rows + (16 * warp_of_thread() + lane % 16) * kStride + 8 * (lane / 16);
    const bfloat16* column = columns + (lane % 8 + 8 * (lane / 16)) * kStride + 8 * (lane / 8 % 2);
#pragma unroll
    for (int k = 0; k < kDims; k += 16) {
      uint32_t a[4];
      load_matrices<false>(a, row + k);
#pragma unroll
      for (int n = 0; n < kColumns; n += 16) {
        uint32_t b[4];
        load_matrices<false>(b, column + n * kStride + k);
        add_product(scores.at, n / 4, a, b);
      }
    }
  }

  /// sums += weights columns, with the weights (kRows, kColumns) and a tile (kColumns, D).
  __device__ static void accumulate(const Scores& weights, const bfloat16* columns, Sums& sums,
                                    Exchange& /*exchange*/) {
    const int lane = lane_of_thread();
    const bfloat16* column = columns + lane % 16 * kStride + 8 * (lane / 16);
#pragma unroll
    for (int k = 0; k < kColumns; k += 16) {
      uint32_t a[4];
      pack(weights, k / 16, a);
#pragma unroll
      for (int n = 0; n < kDims; n += 16) {
        uint32_t b[4];
        load_matrices<true>(b, column + k * kStride + n);
        add_product(sums.at, n / 4, a, b);
      }
    }
  }

 protected:
  /// Columns 16 k to 16 k + 15 of the weights as A.
  __device__ static void pack(const Scores& weights, int k, uint32_t (&a)[4]) {
    const int j = 4 * k;
    a[0] = pack_bf16(weights.at[0][j], weights.at[0][j + 1]);
    a[1] = pack_bf16(weights.at[1][j], weights.at[1][j + 1]);
    a[2] = pack_bf16(weights.at[0][j + 2], weights.at[0][j + 3]);
    a[3] = pack_bf16(weights.at[1][j + 2], weights.at[1][j + 3]);
  }

 private:
  /// Adds A times two neighboring B to columns j to j + 3 of a lane's two rows.
  template <int N>
  __device__ static void add_product(float (&c)[kMyRows][N], int j, const uint32_t (&a)[4],
                                     const uint32_t (&b)[4]) {
    mma_m16n8k16(c[0][j], c[0][j + 1], c[1][j], c[1][j + 1], a, b[0], b[1]);
    mma_m16n8k16(c[0][j + 2], c[0][j + 3], c[1][j + 2], c[1][j + 3], a, b[2], b[3]);
  }
};

}  // namespace tessera::cuda
