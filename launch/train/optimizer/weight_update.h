#pragma once

#include <cstdint>
#include <memory>

#include "core/parameters/parameter.h"
#include "launch/config/run_config.h"
#include "launch/train/optimizer/gradient_clip.h"
#include "launch/train/optimizer/optimizer.h"
#include "models/model.h"
#include "parallel/gradient_reducer.h"
#include "parallel/held_row_gradients.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The end of a step on one rank, from its gradients to new weights: what a run and its dry run
/// have in common. Collective but for the getters; nothing waits for a device.
class WeightUpdate {
 public:
  /// `store` is allocated; it and `groups` must outlive this.
  WeightUpdate(const RunConfig& config, ParameterStore& store, const ParallelGroups& groups);

  /// What the step's last backward pass tells of final gradients; null where one data rank has all.
  GradientReducer* reducer() const { return reducer_.get(); }
  GradientClip& clip() { return clip_; }

  /// Ends the sum of the gradients over the data ranks, and with sequence parallelism over the
  /// tensor ranks, for which `arena` gives room; sums the losses.
  void reduce(const LossSums& sums, Arena& arena);

  /// As Optimizer::round_values().
  void round_values(int64_t steps_done) { optimizer_.round_values(steps_done); }

  /// Step number `step` (counted from 0) of AdamW with the clipped gradients.
  void apply(int64_t step, double lr, const LossSums& sums);

 private:
  const ParallelGroups& groups_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<HeldRowGradients> held_row_gradients_;  // null where rows are not split
  GradientClip clip_;
  Optimizer optimizer_;
};

}  // namespace tessera
