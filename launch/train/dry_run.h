#pragma once

#include <functional>

#include "core/arena.h"
#include "launch/config/run_config.h"
#include "launch/train/train_step.h"
#include "models/model.h"
#include "parallel/meta_communicator.h"

namespace tessera {

/// A run's steps and evaluations on the meta device, where nothing is allocated, computed or
/// exchanged: what the memory plan and `tessera plan` measure.
class DryRun {
 public:
  /// `meta` says which rank of how many this is, and must outlive this. Its tallies count what
  /// steps exchange.
  DryRun(const RunConfig& config, MetaGroups& meta);

  /// A step all of whose micro-batches are `batch`, with `counts` targets on all ranks.
  void train_step(const TokenBatch& batch, const TargetCounts& counts);

  /// The evaluation of one micro-batch.
  void evaluate(const TokenBatch& batch);

  /// The most bytes of activations that any of it needed at a time.
  size_t arena_peak() const { return arena_.peak(); }

 private:
  RunConfig config_;
  MetaGroups& meta_;
  ParameterStore store_;
  Model model_;
  Arena arena_;
};

/// The arena that evaluating the largest micro-batch of so many rows needs.
size_t plan_evaluation_arena(const ModelConfig& config, DType precision, int64_t micro_batch,
                             Communicator& tp);

/// Micro-batches that need as much memory as any: every token has a target, or all but one, so that
/// the targets' rows have to be gathered.
std::vector<TokenBatch> largest_batches(const ModelConfig& config, int64_t micro_batch);

}  // namespace tessera
