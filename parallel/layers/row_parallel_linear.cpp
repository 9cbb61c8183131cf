#include "parallel/layers/row_parallel_linear.h"

#include "core/ops/matmul.h"
#include "core/ops/reduce.h"
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
  weight_ = &store.declare(weight);
  if (!spec.bias) return;
  ParameterSpec bias{spec.name + ".bias", {spec.out_features}};
  bias.gradient_sum = GradientSum::local_rows;
  bias_ = &store.declare(bias);
}

Tensor RowParallelLinear::forward(const StepContext& ctx, const Tensor& x) {
  Shape shape = ctx.rows.local_shape_of(x.shape());
  shape.set(-1, weight_->value.dim(0));
  Tensor y = ctx.arena.allocate(shape, x.dtype());  // (..., n, out_features)
  forward(ctx, x, y);
  return y;
}

void RowParallelLinear::forward(const StepContext& ctx, const Tensor& x, Tensor y) {
  x_ = x;
  const Arena::Scope scope(ctx.arena);
  RegionSum sum(ctx, y, tp_);
  linear_forward(x, weight_->value, {}, sum.part());
  sum.start()->wait();
}

void RowParallelLinear::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const Arena::Scope scope(ctx.arena);
  const Tensor all = all_rows(ctx, dy, tp_);
  linear_backward_input(all, weight_->value, dx);
  add_gradients(ctx, dy, all);
}

void RowParallelLinear::backward_activation(const StepContext& ctx, const Tensor& dy,
                                            const Tensor& hidden, Activation kind, Tensor dhidden) {
  const Arena::Scope scope(ctx.arena);
  const Tensor all = all_rows(ctx, dy, tp_);
  linear_activation_backward_input(all, weight_->value, hidden, kind, dhidden);
  add_gradients(ctx, dy, all);
}

void RowParallelLinear::add_gradients(const StepContext& ctx, const Tensor& local,
                                      const Tensor& all) {
  const bool has_bias = bias_ != nullptr, together = has_bias && !ctx.rows.split();
  const Accumulate accumulate_bias = has_bias ? bias_->next_accumulate() : Accumulate::no;
  linear_backward_weight_bias(all, x_, weight_->grad, weight_->next_accumulate(),
                              together ? bias_->grad : Tensor(), accumulate_bias);
  if (has_bias && !together) column_sum(local, bias_->grad, accumulate_bias);
  if (has_bias) ctx.gradient_is_final(*bias_);
  ctx.gradient_is_final(*weight_);
}

}  // namespace tessera
