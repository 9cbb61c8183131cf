#pragma once

#include <string>

#include "core/parameters/parameter.h"
#include "models/model_config.h"
#include "parallel/in_flight.h"

namespace tessera {

/// Layer norm or RMSNorm (config.norm) with its parameters, which are replicated on the tensor
/// ranks.
class Norm {
 public:
  /// `local_rows`: whether it is outside the tensor regions (ParameterSpec::local_rows).
  Norm(ParameterStore& store, const std::string& name, const ModelConfig& config, bool local_rows);

  /// x (..., C) → y (..., C) in ctx.arena. Keeps a view of x.
  Tensor forward(const StepContext& ctx, const Tensor& x);

  /// Writes residual + dropout(x + bias) to `sum`, which may be x, and returns its norm.
  Tensor forward_sum(const StepContext& ctx, const Tensor& x, const Tensor& bias,
                     const Tensor& residual, const Dropout& dropout, const Tensor& sum);

  /// dx = residual + the gradient through the norm of dy + addend; see layer_norm_backward.
  void backward(const StepContext& ctx, const Tensor& dy, const Tensor& residual, Tensor dx,
                const Tensor& addend = {});

 private:
  struct Saved {
    Tensor x, mean, rstd;  // mean: undefined for RMSNorm
  };

  /// Saves x and memory for the statistics that backward needs, and allocates y.
  Tensor allocate(const StepContext& ctx, const Tensor& x);
  Tensor bias_value() const { return bias_ != nullptr ? bias_->value() : Tensor(); }

  float eps_;
  bool has_mean_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
  InFlight<Saved> saved_;
};

}  // namespace tessera
