#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/ops/cuda/embedding/sort_ids.h"

namespace tessera::cuda {

/// The number of `count` sorted keys that are less than `key`.
__device__ inline int64_t count_below(const SortKey* keys, int64_t count, SortKey key) {
  int64_t begin = 0;
  while (begin < count) {
    const int64_t middle = (begin + count) / 2;
    if (keys[middle] < key) {
      begin = middle + 1;
    } else {
      count = middle;
    }
  }
  return begin;
}

}  // namespace tessera::cuda
