#include "models/language_head.h"

#include "core/ops/elementwise.h"
#include "core/ops/rows.h"
#include "core/trace.h"

namespace tessera {
namespace {

/// The hidden states of the tokens with a target (M, C): `hidden` itself where all have one.
Tensor target_states(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch) {
  if (batch.num_targets() == batch.num_tokens()) return hidden;
  const Tensor x = ctx.arena.allocate({batch.num_targets(), hidden.dim(1)}, hidden.dtype());
  gather_rows(hidden, batch.target_rows, x);
  return x;
}

}  // namespace

LanguageHead::Transform::Transform(ParameterStore& store, const ModelConfig& config)
    : dense(store, {"head.transform", config.hidden_size, config.hidden_size, 1, config.bias,
                    static_cast<float>(config.init_stddev)}),
      norm(store, "head.norm", config.hidden_size, config.bias, config.layer_norm_eps) {}

Tensor LanguageHead::Transform::forward(const StepContext& ctx, const Tensor& x) {
  hidden = dense.forward(ctx, x);
  const Tensor active = ctx.arena.allocate(hidden.shape(), hidden.dtype());
  gelu_forward(hidden, Gelu::erf, active);
  return norm.forward(ctx, active);
}

// In place: a linear layer alone may not overwrite what it reads.
void LanguageHead::Transform::backward(const StepContext& ctx, Tensor gradient) {
  norm.backward(ctx, gradient, {}, gradient);
  const Tensor ddense = ctx.arena.allocate(gradient.shape(), gradient.dtype());
  gelu_backward(gradient, hidden, Gelu::erf, ddense);
  dense.backward(ctx, ddense, gradient);
}

LanguageHead::LanguageHead(ParameterStore& store, const ModelConfig& config,
                           VocabParallelEmbedding& words, Communicator& tp)
    : loss_(words.table(), words.vocab(), tp) {
  if (!config.is_bert()) return;
  transform_.emplace(store, config);
  if (config.bias) loss_.declare_bias(store, "head.bias");
}

Tensor LanguageHead::transformed(const StepContext& ctx, const Tensor& x) {
  return transform_ ? transform_->forward(ctx, x) : x;
}

void LanguageHead::loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                        const LossSums& sums) {
  const TraceRange range("language head");
  const Arena::Scope scope(ctx.arena);
  const Tensor x = transformed(ctx, target_states(ctx, hidden, batch));
  loss_.loss(ctx, x, batch.targets, sums.token_loss(), sums.token_correct());
}

void LanguageHead::loss_and_gradient(const StepContext& ctx, const Tensor& hidden,
                                     const TokenBatch& batch, float scale, const LossSums& sums,
                                     Tensor dhidden) {
  const TraceRange range("language head");
  const Arena::Scope scope(ctx.arena);
  const bool all = batch.num_targets() == batch.num_tokens();
  const Tensor states = target_states(ctx, hidden, batch);
  const Tensor x = transformed(ctx, states);
  const Tensor dx = all ? dhidden : ctx.arena.allocate(x.shape(), x.dtype());
  loss_.loss_and_gradient(ctx, x, batch.targets, scale, sums.token_loss(), dx);
  if (transform_) transform_->backward(ctx, dx);
  if (all) return;
  fill(dhidden, 0.0);
  scatter_add_rows(dx, batch.target_rows, dhidden);
}

void LanguageHead::whole_logits(const StepContext& ctx, const Tensor& x, Tensor logits) {
  const TraceRange range("language head");
  loss_.whole_logits(ctx, transformed(ctx, x), logits);
}

}  // namespace tessera
