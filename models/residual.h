#pragma once

#include <string>

#include "core/arena.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "models/model_config.h"
#include "models/norm.h"

namespace tessera {

/// What stands around a branch of a block, attention or MLP: its norm, dropout and residual sum.
///   pre-norm (GPT-2):  y = x + dropout(branch(norm(x)) + b)
///   post-norm (BERT):  y = norm(x + dropout(branch(x) + b))
/// All of it is of the rows that the rank holds (ctx.rows): T below may be fewer than the batch's.
class Residual {
 public:
  Residual(ParameterStore& store, const std::string& norm_name, const ModelConfig& config,
           int layer, RandomPurpose purpose);

  /// What the branch reads. x (B, T, C).
  Tensor input(const StepContext& ctx, const Tensor& x);

  /// y from what the branch gave (which it overwrites) and its bias b (C), which may be undefined.
  Tensor output(const StepContext& ctx, const Tensor& branch, const Tensor& bias, const Tensor& x);

  struct Handover {
    Tensor y, input;
  };
  /// The same, with next.input() of it: the sum of this branch and the norm that reads it are one
  /// op, whichever of the two it belongs to.
  Handover output_to(Residual& next, const StepContext& ctx, const Tensor& branch,
                     const Tensor& bias, const Tensor& x);

  /// gradient (B, T, C): on entry that of y, on return that of x. `branch` has
  /// backward(ctx, dy, dx).
  template <typename Branch>
  void backward(const StepContext& ctx, Branch& branch, Tensor gradient) {
    const Arena::Scope scope(ctx.arena);
    if (!pre_norm_) norm_.backward(ctx, gradient, {}, gradient);
    const Tensor dinput = ctx.arena.allocate(gradient.shape(), gradient.dtype());
    branch.backward(ctx, dropped(ctx, gradient), dinput);
    if (pre_norm_) {
      norm_.backward(ctx, dinput, /*residual=*/gradient, gradient);
    } else {
      add(gradient, dinput, gradient);
    }
  }

 private:
  /// The gradient of the branch's output from that of the sum.
  Tensor dropped(const StepContext& ctx, const Tensor& gradient) const;

  bool pre_norm_;
  int layer_;
  double dropout_;
  RandomPurpose purpose_;
  Norm norm_;
};

}  // namespace tessera
