#include "parallel/layers/replicated_linear.h"

#include "core/error.h"
#include "core/ops/matmul.h"
#include "parallel/layers/linear_gradients.h"

namespace tessera {

ReplicatedLinear::ReplicatedLinear(ParameterStore& store, const LinearSpec& spec) {
  require(spec.parts == 1, "{}: a replicated linear layer has 1 part, not {}", spec.name,
          spec.parts);
  ParameterSpec weight{spec.name + ".weight",
                       {spec.out_features, spec.in_features},
                       {},
                       Init::normal(spec.init_stddev),
                       /*decay=*/true};
  weight.role = spec.role;
  weight.width_mult = spec.width_mult;
  weight_ = &store.declare(weight);
  if (!spec.bias) return;
  bias_ = &store.declare(
      {spec.name + ".bias", {spec.out_features}, {}, Init::zeros(), /*decay=*/false});
}

Tensor ReplicatedLinear::forward(const StepContext& ctx, const Tensor& x) {
  x_.at(ctx) = x;
  Tensor y =
      ctx.arena.allocate({x.dim(0), weight_->value().dim(0)}, x.dtype());  // (N, out_features)
  linear_forward(x, weight_->value(), bias_ != nullptr ? bias_->value() : Tensor(), y);
  return y;
}

void ReplicatedLinear::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  linear_backward_input(dy, weight_->value(), dx);
  add_linear_gradients(dy, x_.at(ctx), *weight_, bias_);
  if (bias_ != nullptr) ctx.gradient_is_final(*bias_);
  ctx.gradient_is_final(*weight_);
}

}  // namespace tessera
