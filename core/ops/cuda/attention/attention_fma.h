#pragma once

#include "core/ops/cuda/attention/attention_tile_mask.h"
#include "core/ops/cuda/attention/attention_warp_tiles.h"

namespace tessera::cuda {

/// Tile products by fp32 multiply-adds, for tensors of dtype T and heads of up to kDims_ columns.
/// Eight neighboring lanes share a row of a tile; a thread has every 16th row and every 8th column.
template <typename T, int kDims_, int kRows_, int kColumns_>
struct FmaTiles : WarpTiles<float, kDims_ + 4> {
  using Element = T;
  using Stored = float;  ///< element type in shared memory
  static constexpr int kDims = kDims_, kRows = kRows_, kColumns = kColumns_;
  static_assert(kDims % 32 == 0 && kRows % 16 == 0 && kColumns % 16 == 0);
  /// The stride of rows of a tile: 8 lanes that read 16 bytes of 8 rows each use all banks.
  static constexpr int kStride = kDims + 4;
  static constexpr int kRowLanes = 8;
  /// The number of tiles of columns in shared memory, which has no room for two.
  static constexpr int kStages = 1;
  /// Blocks that a multiprocessor must have registers for; 0: as many as the compiler chooses.
  static constexpr int kForwardBlocks = 0, kKeysBlocks = 0, kQueriesBlocks = kDims == 64 ? 3 : 0;
  static constexpr int kMyRows = kRows / 16, kMyColumns = kColumns / 8, kMySums = kDims / 8;

  struct Scores {
    float at[kMyRows][kMyColumns];
  };
  /// Rows per thread in products with D columns.
  struct Sums {
    float at[kMyRows][kMySums] = {};
  };
  /// The lanes of a row exchange their weights here.
  struct alignas(16) Exchange {
    static constexpr int kStride = kColumns + 8;
    float weights[kRows * kStride];
  };

  __device__ static int row(int i) { return static_cast<int>(threadIdx.x) / kRowLanes + 16 * i; }
  /// Column j of a thread's scores is lane_column() + column(j), and column(j) % 32 + lane_column()
  /// < 32.
  __device__ static int lane_column() { return static_cast<int>(threadIdx.x) % kRowLanes; }
  static constexpr __device__ int column(int j) { return 8 * j; }
  __device__ static int sum_column(int j) { return 32 * (j / 4) + 4 * lane_column() + j % 4; }

  __device__ static void store(float* to, float x) { *to = x; }

  /// scores = rows columnsᵀ of tiles (kRows, D) and (kColumns, D).
  __device__ static void multiply(const float* rows, const float* columns, Scores& scores) {
#pragma unroll
    for (int i = 0; i < kMyRows; ++i) {
#pragma unroll
      for (int j = 0; j < kMyColumns; ++j) scores.at[i][j] = 0.0f;
    }
#pragma unroll 2
    for (int k = 0; k < kDims; k += 4) {
      float4 a[kMyRows];
#pragma unroll
      for (int i = 0; i < kMyRows; ++i) a[i] = load4(rows + row(i) * kStride + k);
#pragma unroll
      for (int j = 0; j < kMyColumns; ++j) {
        const float4 b = load4(columns + (lane_column() + column(j)) * kStride + k);
#pragma unroll
        for (int i = 0; i < kMyRows; ++i) {
          float& sum = scores.at[i][j];
          sum = fmaf(a[i].x, b.x, sum);
          sum = fmaf(a[i].y, b.y, sum);
          sum = fmaf(a[i].z, b.z, sum);
          sum = fmaf(a[i].w, b.w, sum);
        }
      }
    }
  }

  /// sums += weights columns, with the weights (kRows, kColumns) and a tile (kColumns, D).
  __device__ static void accumulate(const Scores& weights, const float* columns, Sums& sums,
                                    Exchange& exchange) {
    __syncwarp();  // all lanes have read the previous contents
#pragma unroll
    for (int i = 0; i < kMyRows; ++i) {
#pragma unroll
      for (int j = 0; j < kMyColumns; ++j) {
        exchange.weights[row(i) * Exchange::kStride + lane_column() + column(j)] = weights.at[i][j];
      }
    }
    __syncwarp();
    for (int s = 0; s < kColumns; s += 4) {
      float4 a[kMyRows];
#pragma unroll
      for (int i = 0; i < kMyRows; ++i) {
        a[i] = load4(exchange.weights + row(i) * Exchange::kStride + s);
      }
      add_row<0>(a, columns + s * kStride, sums);
      add_row<1>(a, columns + (s + 1) * kStride, sums);
      add_row<2>(a, columns + (s + 2) * kStride, sums);
      add_row<3>(a, columns + (s + 3) * kStride, sums);
    }
  }

 private:
  __device__ static float4 load4(const float* from) {
    return *reinterpret_cast<const float4*>(from);
  }

  /// Adds the kWhich-th of four weights per row times one row of a tile.
  template <int kWhich>
  __device__ static void add_row(const float4 (&weights)[kMyRows], const float* from, Sums& sums) {
#pragma unroll
    for (int j = 0; j < kMySums; j += 4) {
      const float4 b = load4(from + sum_column(j));
#pragma unroll
      for (int i = 0; i < kMyRows; ++i) {
        const float4& w = weights[i];
        const float a = kWhich == 0 ? w.x : kWhich == 1 ? w.y : kWhich == 2 ? w.z : w.w;
        sums.at[i][j] = fmaf(a, b.x, sums.at[i][j]);
        sums.at[i][j + 1] = fmaf(a, b.y, sums.at[i][j + 1]);
        sums.at[i][j + 2] = fmaf(a, b.z, sums.at[i][j + 2]);
        sums.at[i][j + 3] = fmaf(a, b.w, sums.at[i][j + 3]);
      }
    }
  }
};

}  // namespace tessera::cuda
