#include "models/layers/norm.h"

#include "core/ops/layer_norm.h"
#include "models/layers/gradient_pair.h"

namespace tessera {

Norm::Norm(ParameterStore& store, const std::string& name, const ModelConfig& config,
           bool local_rows)
    : eps_(static_cast<float>(config.norm_eps)), has_mean_(config.norm == NormType::layer) {
  const auto declare = [&](const char* what, Init init) {
    ParameterSpec spec{name + what, {config.hidden_size}, {}, init};
    spec.local_rows = local_rows;
    return &store.declare(spec);
  };
  weight_ = declare(".weight", Init::ones());
  if (config.norm_bias()) bias_ = declare(".bias", Init::zeros());
}

Tensor Norm::allocate(const StepContext& ctx, const Tensor& x) {
  const int64_t rows = x.numel() / x.dim(-1);
  Saved& saved = saved_.at(ctx);
  saved.x = x;
  if (has_mean_) saved.mean = ctx.arena.allocate({rows}, DType::f32);
  saved.rstd = ctx.arena.allocate({rows}, DType::f32);
  return ctx.arena.allocate(x.shape(), x.dtype());
}

Tensor Norm::forward(const StepContext& ctx, const Tensor& x) {
  const Tensor y = allocate(ctx, x);
  const Saved& saved = saved_.at(ctx);
  layer_norm_forward(x, weight_->value(), bias_value(), eps_, y, saved.mean, saved.rstd);
  return y;
}

Tensor Norm::forward_sum(const StepContext& ctx, const Tensor& x, const Tensor& bias,
                         const Tensor& residual, const Dropout& dropout, const Tensor& sum) {
  const Tensor y = allocate(ctx, sum);
  const Saved& saved = saved_.at(ctx);
  bias_dropout_add_norm(x, bias, residual, dropout, sum, weight_->value(), bias_value(), eps_, y,
                        saved.mean, saved.rstd);
  return y;
}

void Norm::backward(const StepContext& ctx, const Tensor& dy, const Tensor& residual, Tensor dx,
                    const Tensor& addend) {
  const Arena::Scope scope(ctx.arena);
  const Saved& saved = saved_.at(ctx);
  const GradientPair gradients = next_gradients(ctx, *weight_, bias_);
  layer_norm_backward(dy, saved.x, weight_->value(), saved.mean, saved.rstd, residual, dx,
                      gradients.first, gradients.second, addend, gradients.accumulate);
  if (bias_ != nullptr) ctx.gradient_is_final(*bias_);
  ctx.gradient_is_final(*weight_);
}

}  // namespace tessera
