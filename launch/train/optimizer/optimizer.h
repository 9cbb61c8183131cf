#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/ops/adamw.h"
#include "core/ops/stochastic_rounding.h"
#include "core/parameters/parameter.h"
#include "launch/config/run_config.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// AdamW over the flat buffers of a store. Neighbouring parameters that agree on weight decay are
/// updated as one range; with stochastic rounding, whose bits are a parameter's own, each is one.
/// Where data ranks share the store, each updates what it owns, and the values of a bucket are
/// gathered while the next one is updated.
class Optimizer {
 public:
  /// `store` and `dp` must outlive this. `dp` may be null where this rank owns all of the store.
  /// `seed` is that of stochastic rounding.
  Optimizer(const OptimizerSection& settings, ParameterStore& store, Communicator* dp = nullptr,
            uint64_t seed = 0);

  /// Update number `step` (counted from 0) from the gradients, which are multiplied by `grad_scale`
  /// first, (1) fp32 on the store's device; nothing changes if that is NaN. Collective over the
  /// data ranks that share the store.
  void step(int64_t step, double lr, const Tensor& grad_scale);

  /// With stochastic rounding: values = masters, with the bits of the last of `steps_done` steps,
  /// as step() left them. For masters that come from elsewhere, such as a checkpoint: a run that
  /// goes on from there is the same bits. Collective as step().
  void round_values(int64_t steps_done);

  size_t num_ranges() const { return updates_.size(); }

 private:
  struct Update {
    ShardRange range;
    std::optional<StochasticRounding> rounding = {};
  };

  void add_updates(const OptimizerSection& settings, uint64_t seed);
  /// Calls `work` with each update, in order; gathers the values of a bucket when it is done.
  template <typename Work>
  void for_each_update(const Work& work) const;
  std::unique_ptr<PendingCollective> gather(const FlatBucket& bucket) const;

  OptimizerSection settings_;
  const ParameterStore& store_;
  Communicator* owners_;  // null where this rank owns all
  std::vector<Update> updates_;
};

}  // namespace tessera
