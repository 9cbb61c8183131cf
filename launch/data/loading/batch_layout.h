#pragma once

#include <cstdint>

namespace tessera {

/// How a step's batch is divided: each data rank gets a contiguous part, and each of its
/// micro-batches a contiguous part of that.
struct BatchLayout {
  int64_t global_batch = 1;  ///< sequences per step
  int64_t micro_batch = 1;   ///< sequences per forward pass on a rank
  int data_rank = 0;
  int data_size = 1;
};

}  // namespace tessera
