#include "models/layers/embeddings.h"

#include "core/error.h"
#include "core/ops/dropout.h"
#include "core/ops/embedding.h"
#include "core/trace/trace.h"
#include "models/architecture.h"

namespace tessera {
namespace {

Parameter* declare_table(ParameterStore& store, const ModelConfig& config, const std::string& name,
                         int64_t rows) {
  ParameterSpec spec{name,
                     {rows, config.hidden_size},
                     {},
                     Init::normal(static_cast<float>(config.init_stddev)),
                     /*decay=*/true};
  spec.local_rows = true;
  spec.role = WidthRole::input;
  return &store.declare(spec);
}

/// The ids of the local rows.
Tensor local_ids(const StepContext& ctx, const Tensor& ids) {
  return ctx.rows.local_of(ids.view({ids.numel()}));
}

void table_backward(const StepContext& ctx, const Tensor& ids, const Tensor& gradient,
                    Parameter& table) {
  const Tensor rows = gradient.view({ids.numel(), gradient.dim(-1)});
  if (!table.frozen) {
    embedding_backward(ids, rows, {0, table.global_shape[0]}, table.grad_to_add_to());
  }
  ctx.gradient_is_final(table);
}

std::optional<VocabParallelEmbedding> make_words(ParameterStore& store, const ModelConfig& config,
                                                 Communicator& tp, const EmbeddingsSpec& spec) {
  if (config.has_images()) return std::nullopt;
  if (spec.words != nullptr) return *spec.words;
  return VocabParallelEmbedding(store, "embedding.word", config.vocab_size, config.hidden_size,
                                static_cast<float>(config.init_stddev), tp);
}

}  // namespace

VocabParallelEmbedding& Embeddings::words() {
  require(words_.has_value(), "a model of images has no embedding of words");
  return *words_;
}

Embeddings::Embeddings(ParameterStore& store, const ModelConfig& config, Communicator& tp,
                       const EmbeddingsSpec& spec)
    : dropout_(config.dropout),
      dropout_id_(spec.dropout_id),
      owns_words_(spec.words == nullptr),
      words_(make_words(store, config, tp, spec)) {
  if (config.has_images()) patches_.emplace(store, spec.name + "embedding.patch", config);
  if (config.positions == Positions::learned) {
    positions_ = declare_table(store, config, spec.name + "embedding.position", config.seq_length);
  }
  if (const int64_t types = config.resolved_token_types(); types > 0) {
    token_types_ = declare_table(store, config, spec.name + "embedding.token_type", types);
  }
  if (config.embedding_norm) {
    norm_.emplace(store, spec.name + "embedding.norm", config, /*local_rows=*/true);
  }
}

Tensor Embeddings::forward(const StepContext& ctx, const Tensor& tokens, const Tensor& positions,
                           const Tensor& token_types) {
  const TraceRange range("embeddings");
  Tensor x = patches_ ? patches_->forward(ctx, tokens) : words_->forward(ctx, tokens);
  if (positions_ != nullptr) {
    position_ids_.at(ctx) = local_ids(ctx, positions);
    embedding_add(x, position_ids_.at(ctx), positions_->value(), x);
  }
  if (token_types_ != nullptr) {
    type_ids_.at(ctx) = local_ids(ctx, token_types);
    embedding_add(x, type_ids_.at(ctx), token_types_->value(), x);
  }
  if (norm_) x = norm_->forward(ctx, x);
  const Dropout dropout = ctx.dropout(dropout_, RandomPurpose::embedding_dropout, dropout_id_);
  if (dropout.active()) dropout_forward(x, dropout, x);
  return x;
}

void Embeddings::backward(const StepContext& ctx, Tensor gradient) {
  const TraceRange range("embeddings backward");
  const Dropout dropout = ctx.dropout(dropout_, RandomPurpose::embedding_dropout, dropout_id_);
  if (dropout.active()) dropout_backward(gradient, dropout, gradient);
  if (norm_) norm_->backward(ctx, gradient, {}, gradient);
  if (token_types_ != nullptr) table_backward(ctx, type_ids_.at(ctx), gradient, *token_types_);
  if (positions_ != nullptr) table_backward(ctx, position_ids_.at(ctx), gradient, *positions_);
  if (patches_) return patches_->backward(ctx, gradient);
  words_->backward(ctx, gradient);
  if (owns_words_) ctx.gradient_is_final(words_->table());
}

}  // namespace tessera
