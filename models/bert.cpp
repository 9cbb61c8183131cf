#include "models/bert.h"

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {

// Members are declared in the order of the forward pass, which is the order of the flat buffers.
Bert::Bert(const ModelConfig& config, ParameterStore& store, Communicator& tp)
    : config_(config),
      tp_(tp),
      embeddings_(store, config, tp),
      transformer_(store, config, /*causal=*/false, tp) {
  if (config.head == Head::classification) {
    document_.emplace(store, config, "classifier", config.num_labels, config.dropout, tp);
    return;
  }
  language_.emplace(store, config, embeddings_.words(), tp);
  if (config.next_sentence) document_.emplace(store, config, "next_sentence", 2, 0.0, tp);
}

Tensor Bert::hidden_states(const StepContext& ctx, const TokenBatch& batch) {
  const Shape row = {1, batch.num_tokens()};
  const Tensor types = config_.token_types > 0 ? batch.token_types.view(row) : Tensor();
  const Tensor x =
      embeddings_.forward(ctx, batch.tokens.view(row), batch.positions.view(row), types);
  const Tensor y = transformer_.forward(ctx, x, mask_of(batch), batch.positions);
  return y.view({y.dim(1), y.dim(2)});
}

void Bert::train(const StepContext& outer, const TokenBatch& batch, const LossScale& scale,
                 const LossSums& sums) {
  const StepContext ctx = context_for(outer, batch);
  const Tensor x = hidden_states(ctx, batch);  // (n, C)
  const Tensor dx = ctx.arena.allocate(x.shape(), x.dtype());
  if (language_) {
    language_->loss_and_gradient(ctx, x, batch, scale.token, sums, dx);
  } else {
    fill(dx, 0.0);
  }
  if (document_) document_->loss_and_gradient(ctx, x, batch, scale.document, sums, dx);

  const Tensor gradient = dx.view({1, dx.dim(0), dx.dim(1)});
  transformer_.backward(ctx, gradient);
  embeddings_.backward(ctx, gradient);
}

void Bert::evaluate(const StepContext& outer, const TokenBatch& batch, const LossSums& sums,
                    Tensor predictions) {
  const StepContext ctx = context_for(outer, batch);
  const Tensor x = hidden_states(ctx, batch);
  if (language_) language_->loss(ctx, x, batch, sums);
  if (document_) document_->loss(ctx, x, batch, sums, predictions);
}

Tensor Bert::token_logits(const StepContext& outer, const TokenBatch& batch) {
  require(language_.has_value(),
          "this BERT has a classification head and no longer the one that predicts tokens");
  const StepContext ctx = context_for(outer, batch);
  const Tensor x = hidden_states(ctx, batch);
  const Tensor states = chosen_rows(ctx, x, batch.target_rows, tp_);
  Tensor logits = ctx.arena.allocate({batch.num_targets(), config_.vocab_size}, DType::f32);
  language_->whole_logits(ctx, states, logits);
  return logits;
}

Tensor Bert::document_logits(const StepContext& outer, const TokenBatch& batch) {
  require(document_.has_value(), "this BERT has no head for whole texts");
  const StepContext ctx = context_for(outer, batch);
  return document_->logits(ctx, hidden_states(ctx, batch), batch);
}

}  // namespace tessera
