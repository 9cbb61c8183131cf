#pragma once

#include <cstdint>
#include <vector>

#include "core/parameter.h"
#include "launch/config/run_config.h"

namespace tessera {

/// AdamW over the flat buffers of a store. Neighbouring parameters that agree on weight decay are
/// updated as one range.
class Optimizer {
 public:
  Optimizer(const OptimizerSection& settings, ParameterStore& store);

  /// Update number `step` (counted from 0) from the gradients, which are multiplied by `grad_scale`
  /// first, (1) fp32 on the store's device; nothing changes if that is NaN.
  void step(int64_t step, double lr, const Tensor& grad_scale);

  size_t num_ranges() const { return updates_.size(); }

 private:
  struct Update {
    Tensor grad, exp_avg, exp_avg_sq, master, value;
    bool decay = false;
  };

  OptimizerSection settings_;
  std::vector<Update> updates_;
};

}  // namespace tessera
