#include "launch/train/optimizer/weight_update.h"

#include "core/trace/trace.h"

namespace tessera {

WeightUpdate::WeightUpdate(const StepOptions& options, OptimizerState& state, ShardedUnits& units,
                           const ParallelGroups& groups)
    : groups_(groups),
      units_(units),
      clip_(state.store(), groups,
            {.max_norm = options.optimizer.grad_clip,
             .max_skipped_steps = options.train.max_skipped_steps,
             .spike_factor = options.train.spike_factor},
            options.train.spike_window),
      optimizer_(options.optimizer, state, groups, options.seed) {
  if (groups.replicas->size() > 1) {
    reducer_ = std::make_unique<GradientReducer>(state.store(), groups,
                                                 options.parallel.grad_reduce_dtype);
  }
  if (groups.tp->size() > 1) {
    partial_gradients_ = std::make_unique<PartialGradients>(state.store(), *groups.tp);
    // An optimizer shard may have none of them where another rank's has some, but not where a
    // tensor rank's has: their flat layouts are equal.
    if (partial_gradients_->num_elements() == 0) partial_gradients_.reset();
  }
}

void WeightUpdate::reduce(const LossSums& sums, Arena& arena) {
  const TraceRange range("gradient reduction");
  if (reducer_) reducer_->finalize();
  units_.finish_step();
  if (partial_gradients_) partial_gradients_->sum(arena);
  groups_.replicas->all_reduce(sums.values);
}

void WeightUpdate::apply(int64_t step, double lr, const LossSums& sums, Arena& arena) {
  const TraceRange range(kOptimizerRange);
  optimizer_.step(step, lr, clip_.scale(step + 1, sums), &arena);
  units_.forget_values();
}

}  // namespace tessera
