#pragma once

#include <optional>
#include <string>

#include "core/arena.h"
#include "core/ops/dropout.h"
#include "models/layers/norm.h"
#include "models/model_config.h"
#include "models/output_rows.h"

namespace tessera {

/// The gradient of an activation (B, T, C): `sum` or, if has_branch, sum + branch. In a post-norm
/// model the norm that comes next in the backward pass adds them while it reads them.
struct ResidualGradient {
  Tensor sum;
  Tensor branch = {};  ///< memory like `sum`, undefined if the model is pre-norm
  bool has_branch = false;

  /// Adds `branch` to `sum`.
  void join();
};

/// The residual branch around attention or an MLP: norm, dropout and residual sum.
///   pre-norm (GPT-2):  y = x + dropout(branch(norm(x)) + b)
///   post-norm (BERT):  y = norm(x + dropout(branch(x) + b))
/// Works on local rows (ctx.rows): T below may be smaller than the batch's.
class Residual {
 public:
  /// `has_norm`: only the first branch of a pre-norm model may have none.
  Residual(ParameterStore& store, const std::string& norm_name, const ModelConfig& config,
           int layer, RandomPurpose purpose, bool has_norm = true);

  /// Returns the input of the branch. x (B, T, C).
  Tensor input(const StepContext& ctx, const Tensor& x);

  /// Returns y from the output of the branch, which it overwrites, and the bias b (C), which may be
  /// undefined.
  Tensor output(const StepContext& ctx, const Tensor& branch, const Tensor& bias, const Tensor& x);

  struct OutputAndInput {
    Tensor y, input;
  };
  /// Returns y and next.input(y); `next` has a norm. Fuses the residual sum of this branch with the
  /// norm that follows it, whichever of the two residuals owns the norm.
  OutputAndInput output_and_next_input(Residual& next, const StepContext& ctx, const Tensor& branch,
                                       const Tensor& bias, const Tensor& x);

  /// The rows `outputs` of x, to add the output of a branch that has only these.
  static Tensor choose(const StepContext& ctx, const Tensor& x, const OutputRows& outputs,
                       Communicator& tp);

  /// Replaces the gradient of y by that of x. `branch` has backward(ctx, dy, dx).
  template <typename Branch>
  void backward(const StepContext& ctx, Branch& branch, ResidualGradient& gradient) {
    const Arena::Scope scope(ctx.arena);
    branch_backward(ctx, branch, before_branch(ctx, gradient), gradient);
  }

  /// For a branch whose y has only the rows `outputs`: sets `gradient` to that of x,
  /// given `of_outputs`, that of y, which it overwrites.
  template <typename Branch>
  void backward(const StepContext& ctx, Branch& branch, const OutputRows& outputs,
                ResidualGradient& of_outputs, ResidualGradient& gradient, Communicator& tp) {
    const Arena::Scope scope(ctx.arena);
    const Tensor dbranch = before_branch(outputs.context(ctx), of_outputs);
    choose_backward(ctx, of_outputs.sum, outputs, gradient.sum, tp);
    branch_backward(ctx, branch, dbranch, gradient);
  }

 private:
  template <typename Branch>
  void branch_backward(const StepContext& ctx, Branch& branch, const Tensor& dbranch,
                       ResidualGradient& gradient) {
    const Tensor& sum = gradient.sum;
    const Tensor dinput =
        pre_norm_ ? ctx.arena.allocate(sum.shape(), sum.dtype()) : gradient.branch;
    branch.backward(ctx, dbranch, dinput);
    after_branch(ctx, dinput, gradient);
  }

  static void choose_backward(const StepContext& ctx, const Tensor& dy, const OutputRows& outputs,
                              Tensor dx, Communicator& tp);
  /// Replaces the gradient of y by that of the sum, and returns that of the branch's output.
  Tensor before_branch(const StepContext& ctx, ResidualGradient& gradient);
  /// Replaces the gradient of the sum by that of x, given that of the branch's input.
  void after_branch(const StepContext& ctx, const Tensor& dinput, ResidualGradient& gradient);

  bool pre_norm_;
  int layer_;
  double dropout_;
  RandomPurpose purpose_;
  std::optional<Norm> norm_;
};

}  // namespace tessera
