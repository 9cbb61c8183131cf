#include "parallel/layers/row_parallel_linear.h"

#include "parallel/layers/linear_gradients.h"
#include "parallel/layers/linear_products.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {

RowParallelLinear::RowParallelLinear(ParameterStore& store, const LinearSpec& spec,
                                     Communicator& tp)
    : tp_(tp) {
  const FeatureShard columns = split_features(spec, spec.in_features, tp);
  ParameterSpec weight{spec.name + ".weight",
                       {spec.out_features, spec.in_features},
                       {1, columns.local},
                       Init::normal(spec.init_stddev),
                       /*decay=*/true};
  weight.slot_extent = columns.largest;
  weight.matrices = WeightMatrices{spec.unit};
  weight.role = spec.role;
  weight.width_mult = spec.width_mult;
  weight_ = &store.declare(weight);
  if (spec.bias) {
    ParameterSpec bias{spec.name + ".bias", {spec.out_features}};
    bias.local_rows = true;
    bias_ = &store.declare(bias);
  }
  if (spec.adapter.rank > 0) adapter_.emplace(store, spec.name, weight, spec.adapter);
}

Tensor RowParallelLinear::forward(const StepContext& ctx, const Tensor& x) {
  Shape shape = ctx.rows.local_shape_of(x.shape());
  shape.set(-1, weight_->value().dim(0));
  Tensor y = ctx.arena.allocate(shape, x.dtype());  // (..., n, out_features)
  forward(ctx, x, y);
  return y;
}

void RowParallelLinear::forward(const StepContext& ctx, const Tensor& x, Tensor y) {
  x_.at(ctx) = x;
  const Arena::Scope scope(ctx.arena);
  RegionSum sum(ctx, y, tp_);
  forward_product(ctx.arena, x, *weight_, {}, sum.part());
  if (adapter_) adapter_->forward(ctx, x, sum.part());
  sum.start()->wait();
}

void RowParallelLinear::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const Arena::Scope scope(ctx.arena);
  const Tensor all = all_rows(ctx, dy, tp_);
  input_gradient(ctx.arena, all, *weight_, dx);
  if (adapter_) adapter_->backward(ctx, all, x_.at(ctx), dx);
  add_gradients(ctx, dy, all);
}

void RowParallelLinear::backward_activation(const StepContext& ctx, const Tensor& dy,
                                            const Tensor& hidden, Activation kind, Tensor dhidden) {
  const Arena::Scope scope(ctx.arena);
  const Tensor all = all_rows(ctx, dy, tp_);
  if (adapter_) {
    input_gradient(ctx.arena, all, *weight_, dhidden);
    adapter_->backward(ctx, all, x_.at(ctx), dhidden);
    activation_backward(dhidden, hidden, kind, dhidden);
  } else {
    activation_input_gradient(ctx.arena, all, *weight_, hidden, kind, dhidden);
  }
  add_gradients(ctx, dy, all);
}

void RowParallelLinear::add_gradients(const StepContext& ctx, const Tensor& local,
                                      const Tensor& all) {
  const bool has_bias = bias_ != nullptr, together = has_bias && !ctx.rows.split();
  add_linear_gradients(all, x_.at(ctx), *weight_, together ? bias_ : nullptr);
  if (has_bias && !together) add_bias_gradient(local, *bias_);
  if (has_bias) ctx.gradient_is_final(*bias_);
  ctx.gradient_is_final(*weight_);
}

}  // namespace tessera
