#include "models/layers/mlp.h"

#include "core/trace/trace.h"
#include "models/layers/init.h"

namespace tessera {

Mlp::Mlp(ParameterStore& store, const std::string& name, const ModelConfig& config, Gelu gelu,
         Communicator& tp)
    : gelu_(gelu),
      up_(store,
          {name + ".up", config.hidden_size, config.resolved_mlp_size(), 1, config.bias,
           static_cast<float>(config.init_stddev)},
          tp),
      down_(store,
            {name + ".down", config.resolved_mlp_size(), config.hidden_size, 1, config.bias,
             residual_init_stddev(config)},
            tp) {}

Tensor Mlp::forward(const StepContext& ctx, const Tensor& x) {
  const TraceRange range("mlp");
  if (ctx.recompute != Recompute::gelu) {
    const auto [hidden, active] = up_.forward_gelu(ctx, x, gelu_);  // (B, T, Fl)
    hidden_ = hidden;
    return down_.forward(ctx, active);
  }
  hidden_ = up_.forward(ctx, x);  // (B, T, Fl)
  const Tensor y = ctx.arena.allocate(x.shape(), x.dtype());
  const Arena::Scope scope(ctx.arena);
  down_.forward(ctx, activated(ctx), y);
  return y;
}

Tensor Mlp::activated(const StepContext& ctx) const {
  const Tensor active = ctx.arena.allocate(hidden_.shape(), hidden_.dtype());
  gelu_forward(hidden_, gelu_, active);
  return active;
}

void Mlp::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const TraceRange range("mlp backward");
  const Arena::Scope scope(ctx.arena);
  if (ctx.recompute == Recompute::gelu) down_.keep(activated(ctx));
  const Tensor dhidden = ctx.arena.allocate(hidden_.shape(), hidden_.dtype());  // (B, T, Fl)
  down_.backward_gelu(ctx, dy, hidden_, gelu_, dhidden);
  up_.backward(ctx, dhidden, dx);
}

}  // namespace tessera
