#include "models/layers/patch_projection.h"

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "parallel/layers/linear_gradients.h"

namespace tessera {

PatchProjection::PatchProjection(ParameterStore& store, const std::string& name,
                                 const ModelConfig& config) {
  ParameterSpec spec{name + ".weight",
                     {config.hidden_size, config.patch_width()},
                     {},
                     Init::normal(static_cast<float>(config.init_stddev)),
                     /*decay=*/true};
  spec.local_rows = true;
  spec.role = WidthRole::input;
  weight_ = &store.declare(spec);
}

Tensor PatchProjection::forward(const StepContext& ctx, const Tensor& patches) {
  const int64_t width = weight_->value().dim(0), numbers = weight_->value().dim(1);
  require(patches.defined() && patches.shape().rank() == 3 && patches.dim(2) == numbers,
          "a model of images needs batches with patches (1, N, {})", numbers);
  const Tensor local = ctx.rows.local_of(patches.view({patches.dim(1), numbers}));
  const Tensor x = ctx.arena.allocate(local.shape(), weight_->value().dtype());
  copy(local, x);
  x_.at(ctx) = x;
  const Tensor y = ctx.arena.allocate({1, x.dim(0), width}, x.dtype());
  linear_forward(x, weight_->value(), {}, y.view({x.dim(0), width}));
  return y;
}

void PatchProjection::backward(const StepContext& ctx, const Tensor& gradient) {
  const Tensor& x = x_.at(ctx);
  const Tensor dy = gradient.view({x.dim(0), gradient.dim(-1)});
  add_linear_gradients(dy, x, *weight_, nullptr);
  ctx.gradient_is_final(*weight_);
}

}  // namespace tessera
