#include "parallel/row_parallel_linear.h"

#include "core/ops/matmul.h"
#include "core/ops/reduce.h"
#include "parallel/partition.h"
#include "parallel/tensor_regions.h"

namespace tessera {

RowParallelLinear::RowParallelLinear(ParameterStore& store, const LinearSpec& spec,
                                     Communicator& tp)
    : tp_(tp) {
  const Range columns = even_range(spec.in_features, tp.size(), tp.rank(), spec.name);
  weight_ = &store.declare({spec.name + ".weight",
                            {spec.out_features, spec.in_features},
                            {1, columns},
                            Init::normal(spec.init_stddev),
                            /*decay=*/true});
  if (!spec.bias) return;
  bias_ = &store.declare(
      {spec.name + ".bias", {spec.out_features}, {}, Init::zeros(), /*decay=*/false});
}

Tensor RowParallelLinear::forward(const StepContext& ctx, const Tensor& x) {
  Shape shape = x.shape();
  shape.set(-1, weight_->value.dim(0));
  Tensor y = ctx.arena.allocate(shape, x.dtype());  // (..., out_features)
  forward(x, y);
  return y;
}

void RowParallelLinear::forward(const Tensor& x, Tensor y) {
  x_ = x;
  linear_forward(x, weight_->value, {}, y);
  reduce_from_tp_forward(y, tp_);
}

void RowParallelLinear::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  linear_backward_input(dy, weight_->value, dx);
  add_gradients(ctx, dy);
}

void RowParallelLinear::backward_gelu(const StepContext& ctx, const Tensor& dy,
                                      const Tensor& hidden, Gelu kind, Tensor dhidden) {
  linear_gelu_backward_input(dy, weight_->value, hidden, kind, dhidden);
  add_gradients(ctx, dy);
}

void RowParallelLinear::add_gradients(const StepContext& ctx, const Tensor& dy) {
  if (bias_ != nullptr) {
    column_sum(dy, bias_->grad);
    ctx.gradient_is_final(*bias_);
  }
  linear_backward_weight(dy, x_, weight_->grad, Accumulate::yes);
  ctx.gradient_is_final(*weight_);
}

}  // namespace tessera
