#include "models/layers/residual.h"

#include "core/ops/elementwise.h"
#include "core/trace/trace.h"

namespace tessera {

Residual::Residual(ParameterStore& store, const std::string& norm_name, const ModelConfig& config,
                   int layer, RandomPurpose purpose, bool has_norm)
    : pre_norm_(config.pre_norm()), layer_(layer), dropout_(config.dropout), purpose_(purpose) {
  if (has_norm) norm_.emplace(store, norm_name, config, /*local_rows=*/true);
}

Tensor Residual::input(const StepContext& ctx, const Tensor& x) {
  const TraceRange range("residual");
  return pre_norm_ && norm_ ? norm_->forward(ctx, x) : x;
}

// Overwrites the branch's output with the sum; nothing else reads it.
Tensor Residual::output(const StepContext& ctx, const Tensor& branch, const Tensor& bias,
                        const Tensor& x) {
  const TraceRange range("residual");
  const Dropout dropout = ctx.dropout(dropout_, purpose_, layer_);
  if (!pre_norm_) return norm_->forward_sum(ctx, branch, bias, x, dropout, branch);
  bias_dropout_add(branch, bias, x, dropout, branch);
  return branch;
}

Residual::OutputAndInput Residual::output_and_next_input(Residual& next, const StepContext& ctx,
                                                         const Tensor& branch, const Tensor& bias,
                                                         const Tensor& x) {
  if (!pre_norm_) {
    const Tensor y = output(ctx, branch, bias, x);
    return {y, y};
  }
  const TraceRange range("residual");
  const Dropout dropout = ctx.dropout(dropout_, purpose_, layer_);
  return {branch, next.norm_->forward_sum(ctx, branch, bias, x, dropout, branch)};
}

Tensor Residual::choose(const StepContext& ctx, const Tensor& x, const OutputRows& outputs,
                        Communicator& tp) {
  const TraceRange range("residual");
  return outputs.choose_local(ctx, x, tp);
}

void Residual::choose_backward(const StepContext& ctx, const Tensor& dy, const OutputRows& outputs,
                               Tensor dx, Communicator& tp) {
  const TraceRange range("residual backward");
  outputs.choose_local_backward(ctx, dy, dx, tp);
}

Tensor Residual::before_branch(const StepContext& ctx, ResidualGradient& gradient) {
  const TraceRange range("residual backward");
  const Tensor& sum = gradient.sum;
  if (!pre_norm_) {
    norm_->backward(ctx, sum, {}, sum, gradient.has_branch ? gradient.branch : Tensor());
    gradient.has_branch = false;
  }
  const Dropout dropout = ctx.dropout(dropout_, purpose_, layer_);
  if (!dropout.active()) return sum;
  const Tensor dbranch = ctx.arena.allocate(sum.shape(), sum.dtype());
  dropout_backward(sum, dropout, dbranch);
  return dbranch;
}

void Residual::after_branch(const StepContext& ctx, const Tensor& dinput,
                            ResidualGradient& gradient) {
  const TraceRange range("residual backward");
  if (!pre_norm_) {
    gradient.has_branch = true;
  } else if (norm_) {
    norm_->backward(ctx, dinput, /*residual=*/gradient.sum, gradient.sum);
  } else {
    add(gradient.sum, dinput, gradient.sum);
  }
}

void ResidualGradient::join() {
  if (has_branch) add(sum, branch, sum);
  has_branch = false;
}

}  // namespace tessera
