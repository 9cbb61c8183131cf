#pragma once

#include <cstdint>
#include <optional>

#include "core/ops/stochastic_rounding.h"
#include "core/tensor.h"

namespace tessera {

/// The settings of AdamW (Loshchilov, Hutter, "Decoupled Weight Decay Regularization", 2019) for
/// one step.
struct AdamW {
  float lr = 0.0f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0.0f;
  int64_t step = 1;  ///< counted from 1, for the bias correction
  /// How a bf16 value is rounded; to nearest if there is none.
  std::optional<StochasticRounding> rounding = {};
};

/// Updates a flat range: exp_avg, exp_avg_sq, master, and value = master rounded to its dtype (one
/// pass; `value` may be `master` itself). All have the same number of elements; all fp32 but value,
/// which is fp32 or bf16, and bf16 if settings.rounding is set.
///
/// Every gradient is multiplied by `grad_scale` first, (1) fp32 on the same device, which the
/// kernel reads: the host need not know it. If it is NaN, nothing changes at all (clip.h).
void adamw_step(const AdamW& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
                Tensor exp_avg_sq, Tensor master, Tensor value);

}  // namespace tessera
