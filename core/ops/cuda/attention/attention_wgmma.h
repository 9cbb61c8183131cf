#pragma once

#include "core/cuda/wgmma.h"
#include "core/ops/cuda/attention/attention_mma.h"

namespace tessera::cuda {

/// Tile products by wgmma, on GPUs of compute capability 9.0; the interface of MmaTiles, whose
/// layout of rows and columns is that of wgmma's accumulators. Warps share the products of a block,
/// so none may skip a tile that another one needs. Tiles consist of panels of up to 64 columns,
/// whose chunks of 16 bytes are swizzled.
template <int kDims_, int kColumns_>
struct WgmmaTiles : MmaTiles<kDims_, kColumns_> {
  using Base = MmaTiles<kDims_, kColumns_>;
  using Base::kDims;
  using Base::kRows;
  using typename Base::Exchange;
  using typename Base::Scores;
  using typename Base::Sums;
  static constexpr int kColumns = kColumns_;
  static constexpr bool kWholeBlock = true, kHasCode = kHasWgmma;
  /// The elements between rows of a panel.
  static constexpr int kStride = kDims < 64 ? kDims : 64, kRowSize = kDims;
  static_assert(Base::kRows == 64 && kDims % kStride == 0);
  static constexpr int kAlignment = kSwizzledAlignment;
  static constexpr int kQueriesBlocks = kDims <= 64 ? 3 : 2;

  __device__ static void trap() {
#ifdef __CUDA_ARCH__
    __trap();
#endif
  }

  /// The place of an element in a tile of kTileRows rows.
  template <int kTileRows>
  __device__ static int at(int row, int column) {
    const int panel = column / kStride, chunk = column % kStride / 8;
    return (panel * kTileRows + row) * kStride + 8 * swizzled_chunk<kRowBytes>(row, chunk) +
           column % 8;
  }
  __device__ static void store(bfloat16* to, float x) { store_shared(to, from_float<bfloat16>(x)); }
  __device__ static void publish() { fence_async_proxy(); }

  /// Rows of a tile that stay in registers, as A.
  struct Held {
    uint32_t a[kDims / 16][4];
  };
  __device__ static void hold(const bfloat16* rows, Held& held) {
    const int lane = lane_of_thread(), row = 16 * warp_of_thread() + lane % 16;
#pragma unroll
    for (int k = 0; k < kDims / 16; ++k) {
      load_matrices<false>(held.a[k], rows + at<kRows>(row, 16 * k + 8 * (lane / 16)));
    }
  }

  /// Starts scores = rows columnsᵀ of tiles (kRows, D) and (kColumns, D).
  template <typename Operand>
  __device__ static void multiply(const Operand& rows, const bfloat16* columns, Scores& scores) {
    const uint64_t b = tile_descriptor<kRowBytes>(columns);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kDims / 16; ++k) {
      const uint64_t part = moved(b, place_of<kColumns>(k));
      if constexpr (std::is_same_v<Operand, Held>) {
        wgmma<kColumns, false>(scores.at[0], scores.at[1], rows.a[k], part, k > 0);
      } else {
        const uint64_t a = tile_descriptor<kRowBytes>(rows);
        wgmma<kColumns>(scores.at[0], scores.at[1], moved(a, place_of<kRows>(k)), part, k > 0);
      }
    }
    wgmma_commit();
  }

  /// Starts sums += weights columns, with the weights (kRows, kColumns) and a tile (kColumns, D).
  __device__ static void accumulate(const Scores& weights, const bfloat16* columns, Sums& sums,
                                    Exchange& /*exchange*/) {
    const uint64_t b = tile_descriptor<kRowBytes>(columns);
    uint32_t a[kColumns / 16][4];
#pragma unroll
    for (int k = 0; k < kColumns / 16; ++k) Base::pack(weights, k, a[k]);
    wgmma_fence();
#pragma unroll
    for (int panel = 0; panel < kDims / kStride; ++panel) {
#pragma unroll
      for (int k = 0; k < kColumns / 16; ++k) {
        const int rows_before = panel * kColumns + 16 * k, j = panel * kStride / 4;
        wgmma<kStride, true>(sums.at[0] + j, sums.at[1] + j, a[k],
                             moved(b, rows_before * kRowBytes), true);
      }
    }
    wgmma_commit();
  }

  /// Waits for what multiply() and accumulate() have started; `result` is of one of them.
  template <typename Result>
  __device__ static void finish(Result& result) {
    wgmma_wait<0>(result.at);
  }

 private:
  static constexpr int kRowBytes = 2 * kStride;

  /// The bytes in a tile of kTileRows rows before columns 16 k and following.
  template <int kTileRows>
  static constexpr __device__ int place_of(int k) {
    const int column = 16 * k;
    return column / kStride * kTileRows * kRowBytes + column % kStride * 2;
  }
};

}  // namespace tessera::cuda
