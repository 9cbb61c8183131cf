#include "models/mlp.h"

#include "models/init.h"

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
  hidden_ = up_.forward(ctx, x);                                               // (B, T, Fl)
  const Tensor active = ctx.arena.allocate(hidden_.shape(), hidden_.dtype());  // (B, T, Fl)
  gelu_forward(hidden_, gelu_, active);
  return down_.forward(ctx, active);
}

void Mlp::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const Arena::Scope scope(ctx.arena);
  const Tensor dhidden = ctx.arena.allocate(hidden_.shape(), hidden_.dtype());  // (B, T, Fl)
  down_.backward(ctx, dy, dhidden);
  gelu_backward(dhidden, hidden_, gelu_, dhidden);
  up_.backward(ctx, dhidden, dx);
}

}  // namespace tessera
