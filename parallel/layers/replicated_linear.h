#pragma once

#include "core/parameters/parameter.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/step_context.h"

namespace tessera {

/// y = x Wᵀ + b, whole on every tensor rank: for heads that take few rows. All ranks compute the
/// same, so nothing has to travel.
class ReplicatedLinear {
 public:
  /// Takes spec.parts = 1.
  ReplicatedLinear(ParameterStore& store, const LinearSpec& spec);

  /// x (N, in_features) → y (N, out_features) in ctx.arena. Keeps x.
  Tensor forward(const StepContext& ctx, const Tensor& x);

  /// dx is written, the gradients of W and b are added to.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

 private:
  Parameter* weight_;          // (out_features, in_features)
  Parameter* bias_ = nullptr;  // (out_features)
  Tensor x_;
};

}  // namespace tessera
