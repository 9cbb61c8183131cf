#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ops/stochastic_rounding.h"
#include "core/parameter.h"
#include "launch/config/run_config.h"

namespace tessera {

/// AdamW over the flat buffers of a store. Neighbouring parameters that agree on weight decay are
/// updated as one range; with stochastic rounding, whose bits are a parameter's own, each is one.
class Optimizer {
 public:
  /// `seed` is that of stochastic rounding.
  Optimizer(const OptimizerSection& settings, ParameterStore& store, uint64_t seed = 0);

  /// Update number `step` (counted from 0) from the gradients, which are multiplied by `grad_scale`
  /// first, (1) fp32 on the store's device; nothing changes if that is NaN.
  void step(int64_t step, double lr, const Tensor& grad_scale);

  /// With stochastic rounding: values = masters, with the bits of the last of `steps_done` steps,
  /// as step() left them. For masters that come from elsewhere, such as a checkpoint: a run that
  /// goes on from there is the same bits.
  void round_values(int64_t steps_done);

  size_t num_ranges() const { return updates_.size(); }

 private:
  struct Update {
    Tensor grad, exp_avg, exp_avg_sq, master, value;
    bool decay = false;
    std::optional<StochasticRounding> rounding = {};
  };

  OptimizerSection settings_;
  std::vector<Update> updates_;
};

}  // namespace tessera
