#include "models/block.h"

#include "core/ops/dropout.h"

namespace tessera {

Block::Block(ParameterStore& store, const std::string& name, const ModelConfig& config, int layer,
             Gelu gelu, Communicator& tp)
    : layer_(layer),
      dropout_(config.dropout),
      attention_norm_(store, name + ".attention_norm", config.hidden_size, config.bias,
                      config.layer_norm_eps),
      attention_(store, name + ".attention", config, layer, tp),
      mlp_norm_(store, name + ".mlp_norm", config.hidden_size, config.bias, config.layer_norm_eps),
      mlp_(store, name + ".mlp", config, gelu, tp) {}

Tensor Block::residual_sum(const StepContext& ctx, const Tensor& branch, const Tensor& bias,
                           const Tensor& residual, RandomPurpose purpose) const {
  // The branch's own memory becomes the sum: nothing else reads it.
  bias_dropout_add(branch, bias, residual, ctx.dropout(dropout_, purpose, layer_, branch.dim(1)),
                   branch);
  return branch;
}

Tensor Block::mlp_half(const StepContext& ctx, const Tensor& attended) {
  const Tensor branch = mlp_.forward(ctx, mlp_norm_.forward(ctx, attended));
  return residual_sum(ctx, branch, mlp_.output_bias(), attended, RandomPurpose::mlp_dropout);
}

Tensor Block::forward(const StepContext& ctx, const Tensor& x, const AttentionMask& mask) {
  const Tensor branch = attention_.forward(ctx, attention_norm_.forward(ctx, x), mask);
  return mlp_half(ctx, residual_sum(ctx, branch, attention_.output_bias(), x,
                                    RandomPurpose::attention_output_dropout));
}

template <typename Branch>
void Block::backward_half(const StepContext& ctx, Norm& norm, Branch& branch, RandomPurpose purpose,
                          Tensor gradient) const {
  const Arena::Scope scope(ctx.arena);
  const Dropout dropout = ctx.dropout(dropout_, purpose, layer_, gradient.dim(1));
  Tensor dbranch = gradient;
  if (dropout.active()) {
    dbranch = ctx.arena.allocate(gradient.shape(), gradient.dtype());
    dropout_backward(gradient, dropout, dbranch);
  }
  const Tensor dnorm = ctx.arena.allocate(gradient.shape(), gradient.dtype());
  branch.backward(ctx, dbranch, dnorm);
  norm.backward(ctx, dnorm, /*residual=*/gradient, gradient);
}

void Block::backward(const StepContext& ctx, Tensor gradient) {
  backward_half(ctx, mlp_norm_, mlp_, RandomPurpose::mlp_dropout, gradient);
  backward_half(ctx, attention_norm_, attention_, RandomPurpose::attention_output_dropout,
                gradient);
}

Tensor Block::extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache) {
  const Tensor branch = attention_.extend(ctx, attention_norm_.forward(ctx, x), cache);
  return mlp_half(ctx, residual_sum(ctx, branch, attention_.output_bias(), x,
                                    RandomPurpose::attention_output_dropout));
}

}  // namespace tessera
