#pragma once

#include <cuda_runtime.h>

namespace tessera::cuda {

/// The layout and the products of tiles of which each warp computes its own rows: a product is
/// complete when it returns. A kind of tiles hides what is different.
template <typename Stored, int kRowSize_>
struct WarpTiles {
  /// Whether the warps of a block must compute together, and whether this compilation has the code.
  static constexpr bool kWholeBlock = false, kHasCode = true;
  /// The elements of a tile's row, and the alignment of a tile in bytes.
  static constexpr int kRowSize = kRowSize_, kAlignment = 16;

  /// The place of an element in a tile of kTileRows rows.
  template <int kTileRows>
  __device__ static int at(int row, int column) {
    return row * kRowSize + column;
  }
  /// Makes the tiles that this thread wrote ready for products after the next barrier.
  __device__ static void publish() {}

  /// Rows of a tile that many products have, where a product reads them.
  using Held = const Stored*;
  __device__ static void hold(const Stored* rows, Held& held) { held = rows; }

  /// Waits for the products that were started; `result` is of one of them.
  template <typename Result>
  __device__ static void finish(Result& /*result*/) {}
};

}  // namespace tessera::cuda
