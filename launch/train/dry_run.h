#pragma once

#include <cstddef>
#include <functional>

#include "core/arena.h"
#include "core/trace/work_log.h"
#include "launch/config/sections.h"
#include "launch/data/loading/context_cut.h"
#include "launch/train/train_step.h"
#include "models/model.h"
#include "parallel/meta_communicator.h"

namespace tessera {

/// Runs a run's steps and evaluations on the meta device, without allocating, computing or
/// exchanging anything. The memory plan and `tessera plan` measure it.
class DryRun {
 public:
  /// `meta` defines this rank and the world size, and must outlive this. Its tallies count the
  /// traffic of steps.
  DryRun(const StepOptions& options, MetaGroups& meta);

  /// A step whose micro-batches are all `batch`, with `counts` targets over all ranks. Adds to
  /// `work`, unless it is null, what the step does on a GPU.
  void train_step(const TokenBatch& batch, const TargetCounts& counts, WorkLog* work = nullptr);

  /// A step and an evaluation of each micro-batch that may need the most memory.
  void run_largest();

  /// Evaluates one micro-batch.
  void evaluate(const TokenBatch& batch);
  /// Scores multiple-choice questions in the largest micro-batches, which are whole.
  void score_continuations();

  /// Writes a text for a prompt of eval.prompts. Returns the bytes that this needs besides
  /// activations.
  size_t write_sample();

  /// Peak bytes of activations over all calls so far.
  size_t arena_peak() const { return arena_.peak(); }
  const OptimizerState& state() const { return state_; }
  const ShardedUnits& units() const { return units_; }

 private:
  StepOptions options_;
  MetaGroups& meta_;
  ParameterStore store_;
  Model model_;
  OptimizerState state_;
  ShardedUnits units_;
  Arena arena_;
};

/// Bytes of arena needed to train and evaluate the largest micro-batches on this rank of `groups`.
size_t plan_step_arena(const StepOptions& options, const ParallelGroups& groups);

/// Bytes of arena needed to evaluate the largest micro-batch of `micro_batch` rows.
size_t plan_evaluation_arena(const ModelConfig& config, DType precision, int64_t micro_batch,
                             Communicator& tp);

/// The micro-batches with the most rows: every token has a target, or all but one, so that the rows
/// with targets have to be gathered. `context` is this rank's, if they are cut.
std::vector<TokenBatch> largest_batches(const ModelConfig& config, int64_t micro_batch,
                                        const ContextShape& context = {});

/// The context ranks of a dry run, in which no mask matters.
inline ContextShape context_ranks_of(const ParallelGroups& groups) {
  return {.ranks = groups.cp->size(), .rank = groups.cp->rank()};
}

/// The batch with only its first targets.
TokenBatch with_targets(TokenBatch batch, int64_t count);

/// The micro-batches that need the most memory: these, and the one of which the last block chooses
/// the most rows (models/output_rows.h), because small models save less than the copies need.
std::vector<TokenBatch> batches_for_memory(const ModelConfig& config, int64_t micro_batch,
                                           const ContextShape& context = {});

}  // namespace tessera
