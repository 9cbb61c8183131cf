#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "launch/config/run_config.h"
#include "models/model_config.h"
#include "parallel/communicator.h"
#include "parallel/process_grid.h"

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

/// What a rank of `config`'s run needs, by a dry run: the model's own step, on the meta device,
/// where nothing is allocated or computed. Not collective; `groups` only say which rank.
MemoryPlan plan_memory(const RunConfig& config, const ParallelGroups& groups);

/// The arena that the model's evaluate() needs for micro-batches of so many rows; likewise by a dry
/// run.
size_t plan_evaluation_arena(const ModelConfig& config, DType precision, int64_t micro_batch,
                             Communicator& tp);

}  // namespace tessera
