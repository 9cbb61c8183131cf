#include "launch/train/weight_update.h"

#include "core/trace.h"

namespace tessera {

WeightUpdate::WeightUpdate(const RunConfig& config, ParameterStore& store,
                           const ParallelGroups& groups)
    : groups_(groups),
      clip_(store, *groups.tp, config.optimizer.grad_clip, groups.dp.get()),
      optimizer_(config.optimizer, store, groups.dp.get()) {
  if (groups.dp->size() > 1) reducer_ = std::make_unique<GradientReducer>(store, *groups.dp);
}

void WeightUpdate::sum(const LossSums& sums) {
  if (reducer_) reducer_->finalize();
  groups_.dp->all_reduce(sums.values);
}

void WeightUpdate::apply(int64_t step, double lr, const LossSums& sums) {
  const TraceRange range("optimizer");
  optimizer_.step(step, lr, clip_.scale(step + 1, sums));
}

}  // namespace tessera
