#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/parameters/optimizer_state.h"
#include "launch/config/sections.h"
#include "launch/train/optimizer/gradient_clip.h"
#include "launch/train/optimizer/optimizer.h"
#include "models/losses.h"
#include "parallel/gradient_reducer.h"
#include "parallel/partial_gradients.h"
#include "parallel/process_grid.h"
#include "parallel/sharded_units.h"

namespace tessera {

/// The TraceRange around clipping and the optimizer.
inline constexpr const char* kOptimizerRange = "optimizer";

/// The end of a step on one rank, from gradients to new weights, shared by a run and its dry run.
/// Collective except for the getters. Nothing waits for a device.
class WeightUpdate {
 public:
  /// `state`, `units` and `groups` must outlive this.
  WeightUpdate(const StepOptions& options, OptimizerState& state, ShardedUnits& units,
               const ParallelGroups& groups);

  /// Receives final gradients from the step's last backward pass; null with a single replica.
  GradientReducer* reducer() const { return reducer_.get(); }
  /// Bytes of gradients that are reduced in bf16.
  size_t gradient_copy_bytes() const { return reducer_ ? reducer_->copy_bytes() : 0; }
  GradientClip& clip() { return clip_; }

  /// Finishes the sum of the gradients over the replicas and, of those that are partial over tensor
  /// ranks, over these, using `arena` as scratch memory. Also sums the losses.
  void reduce(const LossSums& sums, Arena& arena);

  /// See Optimizer::round_values().
  void round_values(int64_t steps_done) {
    optimizer_.round_values(steps_done);
    units_.forget_values();
  }

  /// See Optimizer::swap_average().
  void swap_average() { optimizer_.swap_average(); }

  /// Runs step number `step` (counted from 0) of the optimizer with the clipped gradients, using
  /// `arena` as scratch memory.
  void apply(int64_t step, double lr, const LossSums& sums, Arena& arena);

 private:
  const ParallelGroups& groups_;
  ShardedUnits& units_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<PartialGradients> partial_gradients_;  // null if there are none
  GradientClip clip_;
  Optimizer optimizer_;
};

}  // namespace tessera
