#pragma once

#include <optional>

#include "core/ops/stochastic_rounding.h"
#include "core/tensor.h"

namespace tessera {

/// The parts of a step of Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural
/// networks", 2024) that treat elements alike. Between them, launch/train/optimizer/ makes each
/// matrix of updates orthogonal.

struct MuonMomentum {
  float momentum = 0.95f;
  bool nesterov = true;
  /// How a bf16 momentum is rounded; set if and only if it is bf16.
  std::optional<StochasticRounding> moment_rounding = {};
};

/// With g = grad × grad_scale:
///
///     exp_avg += (1 − momentum) (g − exp_avg),
///     update = exp_avg, or with nesterov g + momentum (exp_avg − g).
///
/// grad is fp32, exp_avg and update are fp32 or bf16, all with the same number of elements; they
/// may not alias. The update is computed from exp_avg before this is rounded. `update` may be
/// undefined: then only exp_avg is computed. grad_scale is (1) fp32 on the same device; if it is
/// NaN, exp_avg is unchanged and update is zeros.
void muon_momentum(const MuonMomentum& settings, const Tensor& grad_scale, const Tensor& grad,
                   Tensor exp_avg, Tensor update);

struct MuonStep {
  float lr = 0.0f;
  float weight_decay = 0.0f;
  /// How a bf16 value is rounded: stochastically if set, otherwise to nearest even.
  std::optional<StochasticRounding> rounding = {};
};

/// master = (1 − lr × weight_decay) master − lr × update, and value = master rounded to its dtype.
/// master is fp32; update and value have one dtype, fp32 or bf16, which is bf16 if
/// settings.rounding is set. All have the same number of elements. `value` may be `master`; no
/// other arguments may alias. If grad_scale, (1) fp32 on the same device, is NaN, nothing changes.
void muon_step(const MuonStep& settings, const Tensor& grad_scale, const Tensor& update,
               Tensor master, Tensor value);

}  // namespace tessera
