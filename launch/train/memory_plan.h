#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "models/model_config.h"
#include "parallel/communicator.h"
#include "parallel/recompute.h"
#include "parallel/row_split.h"

namespace tessera {

/// What a rank's memory holds during training.
struct MemoryPlan {
  struct Line {
    std::string what;
    size_t bytes = 0;
  };

  std::vector<Line> lines;
  size_t arena_bytes = 0;  ///< the line of activations, which is the arena's capacity
  int64_t local_parameters = 0;
  int64_t global_parameters = 0;

  size_t total() const;
};

/// Finds the plan by a dry run: the model's own step, on the meta device, where nothing is
/// allocated or computed. Not collective; `tp` only says which shard. `rows`: how the tensor ranks
/// share activations.
MemoryPlan plan_memory(const ModelConfig& config, DType precision, int64_t micro_batch,
                       int64_t local_batch, Communicator& tp, Recompute recompute = Recompute::none,
                       const RowSplit& rows = {});

/// The arena that the model's evaluate() needs for micro-batches of so many rows; likewise by a dry
/// run.
size_t plan_evaluation_arena(const ModelConfig& config, DType precision, int64_t micro_batch,
                             Communicator& tp);

}  // namespace tessera
