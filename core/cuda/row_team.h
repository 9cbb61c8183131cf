#pragma once

#include <cstdint>

#include "core/cuda/device_code.h"

namespace tessera::cuda {

/// The threads that work on a row together: a warp, several of which make a block, or, for long
/// rows, the whole block.
template <bool kWholeBlock>
struct RowTeam {
  int size = kWholeBlock ? static_cast<int>(blockDim.x) : kWarpSize;
  int thread = static_cast<int>(threadIdx.x) % size;  ///< of the team
  int index = static_cast<int>(threadIdx.x) / size;   ///< of the team in its block
  int count = static_cast<int>(blockDim.x) / size;    ///< of teams in a block

  /// Every thread of the team gets the sum; all must call it.
  __device__ float sum(float x) const {
    if constexpr (kWholeBlock) {
      return block_sum(x);
    } else {
      return warp_sum(x);
    }
  }
};

}  // namespace tessera::cuda
