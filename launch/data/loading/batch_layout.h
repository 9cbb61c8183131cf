#pragma once

#include <cstdint>

namespace tessera {

/// How a step's batch is cut: each data rank has a contiguous part, each of its micro-batches a
/// contiguous part of that.
struct BatchLayout {
  int64_t global_batch = 1;  ///< sequences a step
  int64_t micro_batch = 1;   ///< sequences a forward on one rank
  int data_rank = 0;
  int data_size = 1;
};

}  // namespace tessera
