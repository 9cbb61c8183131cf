#pragma once

#include <string>

#include "core/parameters/parameter.h"
#include "parallel/step_context.h"

namespace tessera {

/// Layer normalisation with its parameters, whole on every tensor rank.
class Norm {
 public:
  /// `rows`: which it is given.
  Norm(ParameterStore& store, const std::string& name, int64_t hidden_size, bool bias, double eps,
       GradientRows rows);

  /// x (..., C) → y (..., C) in ctx.arena. Keeps x.
  Tensor forward(const StepContext& ctx, const Tensor& x);

  /// As forward() of residual + dropout(x + bias), which `sum`, x or another tensor like it, gets.
  Tensor forward_sum(const StepContext& ctx, const Tensor& x, const Tensor& bias,
                     const Tensor& residual, const Dropout& dropout, const Tensor& sum);

  /// dx = residual + the gradient through the norm; see layer_norm_backward.
  void backward(const StepContext& ctx, const Tensor& dy, const Tensor& residual, Tensor dx);

 private:
  /// y, with room for what backward reads of x.
  Tensor allocate(const StepContext& ctx, const Tensor& x);
  Tensor bias_value() const { return bias_ != nullptr ? bias_->value : Tensor(); }

  float eps_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
  Tensor x_, mean_, rstd_;
};

}  // namespace tessera
