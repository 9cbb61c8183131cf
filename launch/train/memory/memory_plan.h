#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/parameters/parameter.h"
#include "launch/config/run_config.h"
#include "models/model_config.h"
#include "parallel/communicators/communicator.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The line of what a checkpoint is written from while steps go on.
inline constexpr const char* kCheckpointCopyLine = "checkpoint copy";

/// What a rank's memory holds during training.
struct MemoryPlan {
  struct Line {
    std::string what;
    size_t bytes = 0;
    bool in_host = false;  ///< in host memory, wherever the model is
  };

  std::vector<Line> lines;
  Device device;           ///< where the model is
  size_t arena_bytes = 0;  ///< the line of activations, which is the arena's capacity
  int64_t local_parameters = 0;
  int64_t global_parameters = 0;

  /// Of the memory that the model is in: on a CPU the host's, with all lines.
  size_t total() const;
  /// Of the host's memory where the model is in a GPU's; else 0.
  size_t total_in_host() const;
  /// Whether a line is of total().
  bool counts(const Line& line) const { return device.is_cpu() || !line.in_host; }
};

/// The bytes that a rank works in, besides its parameters.
struct WorkingMemory {
  size_t activations = 0;      ///< of the arena
  size_t device_batch = 0;     ///< the micro-batch that a GPU works on
  size_t checkpoint_copy = 0;  ///< in the host, for a save in the background
  size_t host_batches = 0;     ///< in the host: loaded micro-batches
};

/// The lines of a plan, and of the memory that a run uses.
std::vector<MemoryPlan::Line> memory_lines(const ParameterStore& store,
                                           const WorkingMemory& working);

/// What a rank of `config`'s run needs, by a dry run: the model's own step, on the meta device,
/// where nothing is allocated or computed. Not collective; `groups` only say which rank, and
/// `device` what memory.
MemoryPlan plan_memory(const RunConfig& config, const ParallelGroups& groups, Device device = kCpu);

/// Whether a run saves while it goes on, from a copy: what ends it is saved without one.
bool copies_checkpoints(const RunConfig& config);

/// The most that a rank copies of a store's masters and moments for a checkpoint that is written in
/// the background: what it alone of its `data_ranks` has, and its share of the slices that all of
/// them have. What all tensor ranks have, too, counts as if only these ranks had it.
size_t checkpoint_copy_bytes(const ParameterStore& store, int data_ranks);

}  // namespace tessera
