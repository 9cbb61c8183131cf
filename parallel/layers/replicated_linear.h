#pragma once

#include "core/parameters/parameter.h"
#include "parallel/in_flight.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/step_context.h"

namespace tessera {

/// y = x Wᵀ + b, replicated on every tensor rank, for heads with few rows. All ranks compute the
/// same result without communication.
class ReplicatedLinear {
 public:
  /// Requires spec.parts = 1.
  ReplicatedLinear(ParameterStore& store, const LinearSpec& spec);

  /// x (N, in_features) → y (N, out_features) in ctx.arena. Stores x for backward.
  Tensor forward(const StepContext& ctx, const Tensor& x);

  /// Overwrites dx; accumulates into the gradients of W and b.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

 private:
  Parameter* weight_;          // (out_features, in_features)
  Parameter* bias_ = nullptr;  // (out_features)
  InFlight<Tensor> x_;
};

}  // namespace tessera
