#pragma once

#include <optional>

#include "core/ops/activation.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/in_flight.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/step_context.h"

namespace tessera {

/// y = x Wᵀ with W's columns sharded over the tensor ranks like x's features; the counterpart of
/// ColumnParallelLinear. x has all N rows. y is summed over the ranks, and each rank gets its n
/// local rows (ctx.rows). forward() does not add the bias, which must be added once and not once
/// per rank; the residual sum that follows adds bias().
class RowParallelLinear {
 public:
  RowParallelLinear(ParameterStore& store, const LinearSpec& spec, Communicator& tp);

  /// x (..., N, local features) → y (..., n, out_features) in ctx.arena, without bias. Stores x
  /// for backward.
  Tensor forward(const StepContext& ctx, const Tensor& x);
  void forward(const StepContext& ctx, const Tensor& x, Tensor y);

  /// Sets x for a backward pass after the caller has recomputed it.
  void keep(const StepContext& ctx, const Tensor& x) { x_.at(ctx) = x; }

  /// dy (..., n, out_features). Overwrites dx (..., N, local features); accumulates into the
  /// gradients of W and of the bias.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

  /// Like backward() for x = f(hidden); overwrites dhidden instead of dx.
  void backward_activation(const StepContext& ctx, const Tensor& dy, const Tensor& hidden,
                           Activation f, Tensor dhidden);

  /// (out_features), the same on every rank. Undefined if the layer has no bias.
  Tensor bias() const { return bias_ != nullptr ? bias_->value() : Tensor(); }

 private:
  /// Accumulates from dy of the local rows and of all rows.
  void add_gradients(const StepContext& ctx, const Tensor& local, const Tensor& all);

  Communicator& tp_;
  Parameter* weight_;          // (out_features, in_features)
  Parameter* bias_ = nullptr;  // (out_features)
  std::optional<LowRankAdapter> adapter_;
  InFlight<Tensor> x_;
};

}  // namespace tessera
