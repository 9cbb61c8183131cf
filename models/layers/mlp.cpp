#include "models/layers/mlp.h"

#include "core/ops/dropout.h"
#include "core/trace/trace.h"
#include "models/architecture.h"
#include "models/layers/init.h"
#include "models/layers/low_rank.h"
#include "parallel/layers/partition.h"

namespace tessera {
namespace {

/// In place.
void drop(const Tensor& x, const Dropout& dropout) {
  if (dropout.active()) dropout_forward(x, dropout, x);
}

}  // namespace

Mlp::Mlp(ParameterStore& store, const std::string& name, const ModelConfig& config, int layer,
         Communicator& tp)
    : activation_(config.activation),
      gated_(config.gated_mlp),
      dropout_(architecture_of(config.kind).inner_dropout ? config.dropout : 0.0),
      layer_(layer),
      columns_(split_range(config.resolved_mlp_size(), tp.size(), tp.rank())),
      total_columns_(config.resolved_mlp_size()),
      up_(store,
          hidden_linear(config,
                        {name + (config.gated_mlp ? ".gate_up" : ".up"), config.hidden_size,
                         config.resolved_mlp_size(), config.gated_mlp ? 2 : 1, config.linear_bias(),
                         static_cast<float>(config.init_stddev), /*unit=*/1,
                         low_rank_of(config, name + (config.gated_mlp ? ".gate_up" : ".up"))}),
          tp),
      down_(store,
            hidden_linear(config, {name + ".down", config.resolved_mlp_size(), config.hidden_size,
                                   1, config.linear_bias(), residual_init_stddev(config),
                                   /*unit=*/1, low_rank_of(config, name + ".down")}),
            tp) {}

Tensor Mlp::forward(const StepContext& ctx, const Tensor& x) {
  const TraceRange range("mlp");
  if (ctx.recompute != Recompute::activation) return down_.forward(ctx, activated_up(ctx, x));
  hidden_.at(ctx) = up_.forward(ctx, x);
  const Tensor y = ctx.arena.allocate(x.shape(), x.dtype());
  const Arena::Scope scope(ctx.arena);
  down_.forward(ctx, activated(ctx), y);
  return y;
}

Tensor Mlp::activated_up(const StepContext& ctx, const Tensor& x) {
  if (gated_) {
    hidden_.at(ctx) = up_.forward(ctx, x);  // (B, T, 2 Fl)
    return activated(ctx);
  }
  const auto [hidden, active] = up_.forward_activation(ctx, x, activation_);  // (B, T, Fl)
  hidden_.at(ctx) = hidden;
  drop(active, dropout(ctx));
  return active;
}

Shape Mlp::active_shape(const Tensor& hidden) const {
  Shape shape = hidden.shape();
  if (gated_) shape.set(-1, hidden.dim(-1) / 2);
  return shape;
}

Dropout Mlp::dropout(const StepContext& ctx) const {
  Dropout result =
      ctx.dropout(dropout_, RandomPurpose::mlp_activation_dropout, layer_, ctx.padded_rows.index);
  result.first_column = columns_.begin;
  result.total_columns = total_columns_;
  return result;
}

Tensor Mlp::activated(const StepContext& ctx) const {
  const Tensor& hidden = hidden_.at(ctx);
  const Tensor active = ctx.arena.allocate(active_shape(hidden), hidden.dtype());
  if (gated_) {
    gated_activation_forward(hidden, activation_, active);
  } else {
    activation_forward(hidden, activation_, active);
  }
  drop(active, dropout(ctx));
  return active;
}

void Mlp::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const TraceRange range("mlp backward");
  const Arena::Scope scope(ctx.arena);
  if (ctx.recompute == Recompute::activation) down_.keep(ctx, activated(ctx));
  const Tensor& hidden = hidden_.at(ctx);
  const Tensor dhidden = ctx.arena.allocate(hidden.shape(), hidden.dtype());
  const Dropout dropped = dropout(ctx);
  if (gated_ || dropped.active()) {
    const Tensor dactive = ctx.arena.allocate(active_shape(hidden), hidden.dtype());
    down_.backward(ctx, dy, dactive);
    if (dropped.active()) dropout_backward(dactive, dropped, dactive);
    if (gated_) {
      gated_activation_backward(dactive, hidden, activation_, dhidden);
    } else {
      activation_backward(dactive, hidden, activation_, dhidden);
    }
  } else {
    down_.backward_activation(ctx, dy, hidden, activation_, dhidden);
  }
  up_.backward(ctx, dhidden, dx);
}

}  // namespace tessera
