#pragma once

#include <optional>

#include "core/ops/stochastic_rounding.h"
#include "core/tensor.h"

namespace tessera {

/// The settings of one step of Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms",
/// 2023).
struct Lion {
  float lr = 0.0f;
  float beta1 = 0.9f;   ///< of the update
  float beta2 = 0.99f;  ///< of the momentum
  float weight_decay = 0.0f;
  /// How a bf16 value is rounded: stochastically if set, otherwise to nearest even.
  std::optional<StochasticRounding> rounding = {};
  /// How a bf16 momentum is rounded; set if and only if it is bf16.
  std::optional<StochasticRounding> moment_rounding = {};
};

/// Updates a flat range in one pass, with g = grad × grad_scale:
///
///     update = sign(beta1 exp_avg + (1 − beta1) g), where sign(0) = 0,
///     master = (1 − lr × weight_decay) master − lr × update,
///     exp_avg = beta2 exp_avg + (1 − beta2) g,
///
/// and value = master rounded to its dtype. Arguments, NaN in `grad_scale` and errors are as in
/// adamw_step(), but there is no second moment.
void lion_step(const Lion& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
               Tensor master, Tensor value);

}  // namespace tessera
