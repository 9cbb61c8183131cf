#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/parameters/optimizer_state.h"
#include "launch/config/run_config.h"
#include "models/model_config.h"
#include "parallel/communicators/communicator.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The line for the copy from which a background save writes.
inline constexpr const char* kCheckpointCopyLine = "checkpoint copy";

/// The memory of one rank during training.
struct MemoryPlan {
  struct Line {
    std::string what;
    size_t bytes = 0;
    bool in_host = false;  ///< in host memory, wherever the model is
  };

  std::vector<Line> lines;
  Device device;               ///< where the model is
  size_t arena_bytes = 0;      ///< the line of activations, which is the arena's capacity
  size_t workspace_bytes = 0;  ///< the line of the workspace (core/cuda/workspace.h)
  size_t sample_bytes = 0;     ///< the line of samples, while the model writes one
  int64_t local_parameters = 0;
  int64_t global_parameters = 0;

  /// Bytes in the model's memory; on a CPU this is the host's, with all lines.
  size_t total() const;
  /// Bytes in host memory if the model is on a GPU; otherwise 0.
  size_t total_in_host() const;
  /// Whether total() includes a line.
  bool counts(const Line& line) const { return device.is_cpu() || !line.in_host; }
};

/// A rank's memory besides its parameters, in bytes.
struct WorkingMemory {
  size_t activations = 0;       ///< capacity of the arena
  size_t gradient_copies = 0;   ///< in bf16, to be reduced over data ranks
  size_t gathered_weights = 0;  ///< of blocks whose values are sharded
  size_t staged_gradients = 0;  ///< of blocks whose gradients are sharded
  size_t workspace = 0;         ///< scratch memory of ops and libraries on the GPU
  size_t device_batch = 0;      ///< the current micro-batch on the GPU, and the next one of images
  size_t checkpoint_copy = 0;   ///< in host memory, for a background save
  size_t host_batches = 0;      ///< in host memory: loaded micro-batches
  size_t samples = 0;           ///< keys and values of a text of eval.prompts
};

/// The lines of a plan; also used for the memory actually in use.
std::vector<MemoryPlan::Line> memory_lines(const OptimizerState& state,
                                           const WorkingMemory& working);

/// Plans the memory of one rank by a dry run: the model's own step on the meta device, which
/// allocates and computes nothing. Not collective. `groups` only identify the rank, and `device`
/// the memory. `has_gpu` says that `device` is the calling thread's GPU: cuDNN is then asked for
/// the scratch memory of its attention, for which it compiles the plans that the run needs;
/// otherwise that is estimated.
MemoryPlan plan_memory(const RunConfig& config, const ParallelGroups& groups, Device device = kCpu,
                       bool has_gpu = false);

/// Whether a run saves in the background from a copy. The save at the end of a run needs no copy.
bool copies_checkpoints(const RunConfig& config);

}  // namespace tessera
