#include "parallel/layers/column_parallel_linear.h"

#include "core/checked.h"
#include "core/ops/matmul.h"
#include "parallel/layers/partition.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {

FeatureShard split_features(const LinearSpec& spec, int64_t features, const Communicator& tp) {
  const int64_t units = div_exact(features, spec.unit, spec.name, "the size of a unit");
  const Range local = split_range(units, tp.size(), tp.rank());
  return {{local.begin * spec.unit, local.end * spec.unit},
          split_range(units, tp.size(), 0).size() * spec.unit};
}

ColumnParallelLinear::ColumnParallelLinear(ParameterStore& store, const LinearSpec& spec,
                                           Communicator& tp)
    : tp_(tp) {
  const bool joint = spec.parts > 1;
  const FeatureShard features = split_features(spec, spec.out_features, tp);
  const Shape weight = joint ? Shape{spec.parts, spec.out_features, spec.in_features}
                             : Shape{spec.out_features, spec.in_features};
  const auto declare = [&](const char* what, const Shape& shape, Init init, bool decay) {
    ParameterSpec parameter{spec.name + what, shape, {joint ? 1 : 0, features.local}, init, decay};
    parameter.slot_extent = features.largest;
    return &store.declare(parameter);
  };
  weight_ = declare(".weight", weight, Init::normal(spec.init_stddev), /*decay=*/true);
  if (!spec.bias) return;
  const Shape bias = joint ? Shape{spec.parts, spec.out_features} : Shape{spec.out_features};
  bias_ = declare(".bias", bias, Init::zeros(), /*decay=*/false);
}

Tensor ColumnParallelLinear::weight_matrix(const Tensor& local) const {
  return local.view({rows_of(local), local.dim(-1)});
}

Tensor ColumnParallelLinear::bias_vector() const {
  return bias_ != nullptr ? bias_->value.view({bias_->value.numel()}) : Tensor();
}

// (..., N, parts × local features)
Tensor ColumnParallelLinear::allocate_output(const StepContext& ctx, const Tensor& x) const {
  Shape shape = ctx.rows.global_shape_of(x.shape());
  shape.set(-1, weight_matrix(weight_->value).dim(0));
  return ctx.arena.allocate(shape, x.dtype());
}

Tensor ColumnParallelLinear::forward(const StepContext& ctx, const Tensor& x) {
  x_ = x;
  Tensor y = allocate_output(ctx, x);
  const Arena::Scope scope(ctx.arena);
  linear_forward(all_rows(ctx, x, tp_), weight_matrix(weight_->value), bias_vector(), y);
  return y;
}

ColumnParallelLinear::Activated ColumnParallelLinear::forward_activation(const StepContext& ctx,
                                                                         const Tensor& x,
                                                                         Activation kind) {
  x_ = x;
  const Activated y{allocate_output(ctx, x), allocate_output(ctx, x)};
  const Arena::Scope scope(ctx.arena);
  linear_activation_forward(all_rows(ctx, x, tp_), weight_matrix(weight_->value), bias_vector(),
                            kind, y.hidden, y.active);
  return y;
}

void ColumnParallelLinear::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const Arena::Scope scope(ctx.arena);
  // Storing the gathered input would lose what sequence parallelism saves, so backward gathers it
  // again. The gather overlaps with computing dx, and the sum of dx overlaps with computing dw.
  AllRows x(ctx, x_, tp_);
  RegionSum sum(ctx, dx, tp_);
  linear_backward_input(dy, weight_matrix(weight_->value), sum.part());
  x.wait();
  const auto summing = sum.start();
  const bool has_bias = bias_ != nullptr;
  linear_backward_weight_bias(dy, x.wait(), weight_matrix(weight_->grad),
                              weight_->next_accumulate(),
                              has_bias ? bias_->grad.view({bias_->grad.numel()}) : Tensor(),
                              has_bias ? bias_->next_accumulate() : Accumulate::no);
  // Wait before a gradient is final: a captured pass may be cut there, and nothing may be pending
  // on another stream at a cut.
  summing->wait();
  if (has_bias) ctx.gradient_is_final(*bias_);
  ctx.gradient_is_final(*weight_);
}

}  // namespace tessera
