#include "models/layers/language_head.h"

#include "core/ops/elementwise.h"
#include "core/trace/trace.h"
#include "models/architecture.h"
#include "models/layers/init.h"
#include "parallel/communicators/traffic.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {
namespace {

bool all_are_targets(const TokenBatch& batch) { return batch.num_targets() == batch.num_tokens(); }

}  // namespace

LanguageHead::Transform::Transform(ParameterStore& store, const ModelConfig& config)
    : dense(store,
            hidden_linear(config, {"head.transform", config.hidden_size, config.hidden_size, 1,
                                   config.linear_bias(), static_cast<float>(config.init_stddev)})),
      norm(store, "head.norm", config, /*local_rows=*/false) {}

Tensor LanguageHead::Transform::forward(const StepContext& ctx, const Tensor& x) {
  const Tensor inner = dense.forward(ctx, x);
  hidden.at(ctx) = inner;
  const Tensor active = ctx.arena.allocate(inner.shape(), inner.dtype());
  activation_forward(inner, Activation::gelu, active);
  return norm.forward(ctx, active);
}

// Works in place through a buffer: a linear layer may not overwrite its input.
void LanguageHead::Transform::backward(const StepContext& ctx, Tensor gradient) {
  norm.backward(ctx, gradient, {}, gradient);
  const Tensor ddense = ctx.arena.allocate(gradient.shape(), gradient.dtype());
  activation_backward(gradient, hidden.at(ctx), Activation::gelu, ddense);
  dense.backward(ctx, ddense, gradient);
}

LanguageHead::LanguageHead(ParameterStore& store, const ModelConfig& config,
                           VocabParallelEmbedding& words, Communicator& tp)
    : tp_(tp),
      transform_(make_transform(store, config)),
      scale_(static_cast<float>(config.logit_scale())),
      own_table_(config.tie_embeddings
                     ? nullptr
                     : &declare_vocab_table(store, "head.weight", config.vocab_size,
                                            config.hidden_size,
                                            static_cast<float>(config.init_stddev), words.vocab(),
                                            WidthRole::output)),
      loss_(own_table_ != nullptr ? *own_table_ : words.table(), words.vocab(), tp) {
  if (transform_ && (config.linear_bias() || architecture_of(config.kind).head_bias)) {
    loss_.declare_bias(store, "head.bias");
  }
}

std::optional<LanguageHead::Transform> LanguageHead::make_transform(ParameterStore& store,
                                                                    const ModelConfig& config) {
  if (!architecture_of(config.kind).head_transform) return std::nullopt;
  return Transform(store, config);
}

Tensor LanguageHead::target_states(const StepContext& ctx, const Tensor& hidden,
                                   const TokenBatch& batch) {
  const TrafficScope traffic(Traffic::loss);
  if (all_are_targets(batch)) return all_rows(ctx, hidden, tp_);
  return chosen_rows(ctx, hidden, batch.target_rows, tp_);
}

Tensor LanguageHead::transformed(const StepContext& ctx, const Tensor& x) {
  const Tensor y = transform_ ? transform_->forward(ctx, x) : x;
  if (!has_scale()) return y;
  const Tensor scaled = ctx.arena.allocate(y.shape(), y.dtype());
  scale(y, scale_, scaled);
  return scaled;
}

void LanguageHead::loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                        const LossSums& sums, const TargetScores& each) {
  const TraceRange range("language head");
  const Arena::Scope scope(ctx.arena);
  const Tensor x = transformed(ctx, target_states(ctx, hidden, batch));
  loss_.loss(ctx, x, batch.targets, sums.token_loss(), sums.token_correct(), each);
}

void LanguageHead::loss_and_gradient(const StepContext& ctx, const Tensor& hidden,
                                     const TokenBatch& batch, const Scalar& weight,
                                     const LossSums& sums, Tensor dhidden) {
  const TraceRange range("language head");
  const Arena::Scope scope(ctx.arena);
  const bool all = all_are_targets(batch), in_place = all && !ctx.rows.split();
  const Tensor states = target_states(ctx, hidden, batch);
  const Tensor x = transformed(ctx, states);
  const Tensor dx = in_place ? dhidden : ctx.arena.allocate(x.shape(), x.dtype());
  loss_.loss_and_gradient(ctx, x, batch.targets, weight, sums.token_loss(), dx);
  if (own_table_ != nullptr) ctx.gradient_is_final(*own_table_);
  if (has_scale()) scale(dx, scale_, dx);
  if (transform_) transform_->backward(ctx, dx);
  if (in_place) return;
  if (all) return copy(ctx.rows.local_of(dx), dhidden);
  fill(dhidden, 0.0);
  chosen_rows_backward(ctx, dx, batch.target_rows, dhidden);
}

void LanguageHead::whole_logits(const StepContext& ctx, const Tensor& x, Tensor logits) {
  const TraceRange range("language head");
  loss_.whole_logits(ctx, transformed(ctx, x), logits);
}

}  // namespace tessera
