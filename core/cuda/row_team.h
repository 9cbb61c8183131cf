#pragma once

#include <cstdint>

#include "core/cuda/device_code.h"

namespace tessera::cuda {

/// The threads that share a row: a warp, with several warps per block, or the whole block for long
/// rows.
template <bool kWholeBlock>
struct RowTeam {
  int size = kWholeBlock ? static_cast<int>(blockDim.x) : kWarpSize;
  int thread = static_cast<int>(threadIdx.x) % size;  ///< index in the team
  int index = static_cast<int>(threadIdx.x) / size;   ///< index of the team in its block
  int count = static_cast<int>(blockDim.x) / size;    ///< teams per block

  /// Returns the sum to every thread of the team; all must call it.
  __device__ float sum(float x) const {
    if constexpr (kWholeBlock) {
      return block_sum(x);
    } else {
      return warp_sum(x);
    }
  }
};

}  // namespace tessera::cuda
