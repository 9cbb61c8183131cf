#pragma once

#include "core/ops/gelu.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/step_context.h"

namespace tessera {

/// y = x Wᵀ with W's columns split over the tensor ranks like x's features: the other half of a
/// pair that begins with a ColumnParallelLinear. x has all N rows; y is summed over the ranks, of
/// which each gets the n rows that it holds outside the tensor region (ctx.rows). The bias, which
/// counts once and not once a rank, is left to the residual sum that follows: see bias().
class RowParallelLinear {
 public:
  RowParallelLinear(ParameterStore& store, const LinearSpec& spec, Communicator& tp);

  /// x (..., N, in_features / tp) → y (..., n, out_features) in ctx.arena, without bias. Keeps x.
  Tensor forward(const StepContext& ctx, const Tensor& x);
  void forward(const StepContext& ctx, const Tensor& x, Tensor y);

  /// For a backward pass whose x was computed again, elsewhere.
  void keep(const Tensor& x) { x_ = x; }

  /// dy (..., n, out_features); dx (..., N, in_features / tp) is written, the gradients of W and of
  /// the bias are added to.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

  /// backward, where x was gelu(hidden), to dhidden.
  void backward_gelu(const StepContext& ctx, const Tensor& dy, const Tensor& hidden, Gelu kind,
                     Tensor dhidden);

  /// (out_features), whole on every rank; undefined if the layer has none.
  Tensor bias() const { return bias_ != nullptr ? bias_->value : Tensor(); }

 private:
  /// From dy of the rank's rows and of all.
  void add_gradients(const StepContext& ctx, const Tensor& held, const Tensor& all);

  Communicator& tp_;
  Parameter* weight_;          // (out_features, in_features)
  Parameter* bias_ = nullptr;  // (out_features)
  Tensor x_;
};

}  // namespace tessera
