#pragma once

#include <cstdint>
#include <optional>

#include "core/ops/stochastic_rounding.h"
#include "core/tensor.h"

namespace tessera {

/// The settings of one step of AdamW (Loshchilov, Hutter, "Decoupled Weight Decay Regularization",
/// 2019).
struct AdamW {
  float lr = 0.0f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0.0f;
  int64_t step = 1;  ///< from 1, for the bias correction
  /// How a bf16 value is rounded: stochastically if set, otherwise to nearest even.
  std::optional<StochasticRounding> rounding = {};
  /// How bf16 moments are rounded; set if and only if they are bf16. Rounded to nearest, a running
  /// mean stops where a step changes it by less than half of a last place: with beta2 = 0.999 that
  /// is almost everywhere. exp_avg uses the lower halves of the random words, and exp_avg_sq the
  /// upper ones.
  std::optional<StochasticRounding> moment_rounding = {};
};

/// Updates a flat range in one pass: exp_avg, exp_avg_sq, master, and value = master rounded to its
/// dtype. All have the same number of elements and are fp32, except for the moments, which are both
/// fp32 or both bf16, and value, which is fp32 or bf16; it is bf16 if settings.rounding is set. The
/// new weights are computed from the moments before these are rounded. `value` may be `master`; no
/// other arguments may alias.
///
/// The gradient is first multiplied by `grad_scale`, (1) fp32 on the same device; the kernel reads
/// it, so the host need not know it. If it is NaN, nothing changes (clip.h). Throws on other
/// shapes, dtypes, devices, aliases and settings.
void adamw_step(const AdamW& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
                Tensor exp_avg_sq, Tensor master, Tensor value);

}  // namespace tessera
