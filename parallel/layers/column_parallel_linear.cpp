#include "parallel/layers/column_parallel_linear.h"

#include "core/checked.h"
#include "parallel/layers/linear_gradients.h"
#include "parallel/layers/linear_products.h"
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
  const auto specify = [&](const char* what, const Shape& shape, Init init, bool decay) {
    ParameterSpec parameter{spec.name + what, shape, {joint ? 1 : 0, features.local}, init, decay};
    parameter.slot_extent = features.largest;
    return parameter;
  };
  ParameterSpec matrix = specify(".weight", weight, Init::normal(spec.init_stddev), /*decay=*/true);
  matrix.matrices = WeightMatrices{spec.unit, spec.unit_rows};
  matrix.role = spec.role;
  matrix.width_mult = spec.width_mult;
  weight_ = &store.declare(matrix);
  if (spec.bias) {
    const Shape bias = joint ? Shape{spec.parts, spec.out_features} : Shape{spec.out_features};
    bias_ = &store.declare(specify(".bias", bias, Init::zeros(), /*decay=*/false));
  }
  if (spec.adapter.rank > 0) adapter_.emplace(store, spec.name, matrix, spec.adapter);
}

Tensor ColumnParallelLinear::bias_vector() const {
  return bias_ != nullptr ? bias_->value().view({bias_->value().numel()}) : Tensor();
}

// (..., N, parts × local features)
Tensor ColumnParallelLinear::allocate_output(const StepContext& ctx, const Tensor& x) const {
  Shape shape = ctx.rows.global_shape_of(x.shape());
  shape.set(-1, rows_of(weight_->value()));
  return ctx.arena.allocate(shape, x.dtype());
}

Tensor ColumnParallelLinear::forward(const StepContext& ctx, const Tensor& x) {
  x_.at(ctx) = x;
  Tensor y = allocate_output(ctx, x);
  const Arena::Scope scope(ctx.arena);
  const Tensor all = all_rows(ctx, x, tp_);
  forward_product(ctx.arena, all, *weight_, bias_vector(), y);
  if (adapter_) adapter_->forward(ctx, all, y);
  return y;
}

ColumnParallelLinear::Activated ColumnParallelLinear::forward_activation(const StepContext& ctx,
                                                                         const Tensor& x,
                                                                         Activation kind) {
  x_.at(ctx) = x;
  const Activated y{allocate_output(ctx, x), allocate_output(ctx, x)};
  const Arena::Scope scope(ctx.arena);
  const Tensor all = all_rows(ctx, x, tp_);
  if (!adapter_) {
    activation_product(ctx.arena, all, *weight_, bias_vector(), kind, y.hidden, y.active);
    return y;
  }
  forward_product(ctx.arena, all, *weight_, bias_vector(), y.hidden);
  adapter_->forward(ctx, all, y.hidden);
  activation_forward(y.hidden, kind, y.active);
  return y;
}

void ColumnParallelLinear::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const Arena::Scope scope(ctx.arena);
  // Storing the gathered input would lose what sequence parallelism saves, so backward gathers it
  // again. The gather overlaps with computing dx, and the sum of dx overlaps with computing dw.
  AllRows x(ctx, x_.at(ctx), tp_);
  RegionSum sum(ctx, dx, tp_);
  input_gradient(ctx.arena, dy, *weight_, sum.part());
  x.wait();
  if (adapter_) adapter_->backward(ctx, dy, x.wait(), sum.part());
  const auto summing = sum.start();
  add_linear_gradients(dy, x.wait(), *weight_, bias_);
  // Wait before a gradient is final: a captured pass may be cut there, and nothing may be pending
  // on another stream at a cut.
  summing->wait();
  if (bias_ != nullptr) ctx.gradient_is_final(*bias_);
  ctx.gradient_is_final(*weight_);
}

}  // namespace tessera
