#include "models/model.h"

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/positions.h"
#include "models/architecture.h"
#include "models/encoder.h"
#include "models/layers/attention/key_value_cache.h"
#include "models/layers/attention/self_attention.h"
#include "models/layers/attention/source_cache.h"
#include "models/layers/embedding_head.h"
#include "models/layers/embeddings.h"
#include "models/layers/label_head.h"
#include "models/layers/language_head.h"
#include "models/transformer.h"
#include "parallel/layers/tensor_regions.h"

namespace tessera {
namespace {

/// The loss of a classification head that predicts numbers.
std::optional<ValueLoss> value_loss_of(const ModelConfig& config) {
  switch (config.problem_type) {
    case ProblemType::single_label_classification:
      return std::nullopt;
    case ProblemType::multi_label_classification:
      return ValueLoss::bce_with_logits;
    case ProblemType::regression:
      return ValueLoss::mse;
  }
  return std::nullopt;
}

LabelHeadSpec classifier(const ModelConfig& config) {
  LabelHeadSpec spec{.name = "classifier", .num_labels = config.num_labels};
  spec.dropout = config.dropout;
  spec.pooling = config.classifier_pooling;
  if (config.head == Head::token_classification) {
    spec.labels_of = LabelsOf::tokens;
  } else {
    spec.value_loss = value_loss_of(config);
  }
  return spec;
}

std::unique_ptr<Embeddings> make_embeddings(ParameterStore& store, const ModelConfig& config,
                                            Communicator& tp, Encoder* encoder) {
  if (encoder == nullptr) return std::make_unique<Embeddings>(store, config, tp);
  const EmbeddingsSpec spec{.name = "decoder.", .words = &encoder->embeddings().words()};
  return std::make_unique<Embeddings>(store, config, tp, spec);
}

/// The stack with the heads: the decoder of an encoder–decoder.
ModelConfig stack_config(ModelConfig config) {
  if (architecture_of(config.kind).cross_attention) {
    config.num_layers = config.resolved_decoder_layers();
  }
  return config;
}

StackSpec stack_of(const ModelConfig& config) {
  StackSpec stack{.causal = traits_of(config).causal};
  stack.has_cross_attention = architecture_of(config.kind).cross_attention;
  if (stack.has_cross_attention) stack.name = "decoder.";
  return stack;
}

/// The ids (1, N) of a batch, or its patches (1, N, D).
Tensor input_of(const TokenBatch& batch) {
  const Tensor& patches = batch.patches;
  if (!patches.defined()) return batch.tokens.view({1, batch.num_tokens()});
  return patches.view({1, patches.dim(0), patches.dim(1)});
}

}  // namespace

Model::Model(const ModelConfig& config, ParameterStore& store, Communicator& tp)
    : config_(config),
      read_(read_by_heads(config)),
      store_(store),
      tp_(tp),
      encoder_(architecture_of(config.kind).cross_attention
                   ? std::make_unique<Encoder>(store, config, tp)
                   : nullptr),
      embeddings_(make_embeddings(store, config, tp, encoder_.get())),
      transformer_(
          std::make_unique<Transformer>(store, stack_config(config), tp, stack_of(config))) {
  if (config.head == Head::embedding) {
    embedding_head_ = std::make_unique<EmbeddingHead>(config.embedding_pooling, tp);
    return;
  }
  if (config.head != Head::pretraining) {
    label_head_ = std::make_unique<LabelHead>(store, config, classifier(config), tp);
    return;
  }
  language_head_ = std::make_unique<LanguageHead>(store, config, embeddings_->words(), tp);
  if (config.next_sentence) {
    label_head_ = std::make_unique<LabelHead>(
        store, config, LabelHeadSpec{.name = "next_sentence", .num_labels = 2}, tp);
  }
}

Model::~Model() = default;

void Model::listen(UnitListener* units) {
  transformer_->listen(units);
  if (encoder_) encoder_->listen(units);
}

Model::HeadPass Model::head_pass(const StepContext& ctx, const TokenBatch& batch) const {
  const StepContext of_batch = context_for(ctx, batch);
  const std::optional<OutputBatch>& read = passes_.at(ctx).read;
  if (!read) return {of_batch, batch};
  return {read->rows.context(of_batch), read->batch};
}

Tensor Model::hidden_states(const StepContext& ctx, const TokenBatch& batch,
                            const std::optional<OutputRows>& outputs) {
  const EncodedSource* source =
      encoder_ ? &encoder_->forward(ctx, batch.source, mask_of(batch).documents) : nullptr;
  const Shape row = {1, batch.num_tokens()};
  const bool has_types = config_.resolved_token_types() > 0;
  const Tensor types = has_types ? batch.token_types.view(row) : Tensor();
  const Tensor x = embeddings_->forward(ctx, input_of(batch), batch.positions.view(row), types);
  const Tensor y = transformer_->forward(ctx, x, mask_of(batch), batch.positions, source, outputs);
  return y.view({y.dim(1), y.dim(2)});
}

void Model::forward(const StepContext& outer, const TokenBatch& batch) {
  const StepContext ctx = context_for(outer, batch);
  Pass& pass = passes_.at(ctx);
  pass.read = output_batch(ctx, batch, read_);
  std::optional<OutputRows> outputs;
  if (pass.read) outputs = pass.read->rows;
  pass.output = hidden_states(ctx, batch, outputs);
}

void Model::loss_and_gradient(const StepContext& ctx, const TokenBatch& batch,
                              const LossWeights& weights, const LossSums& sums) {
  require(embedding_head_ == nullptr,
          "a model with an embedding head learns from the embeddings of a whole batch");
  const HeadPass heads = head_pass(ctx, batch);
  Pass& pass = passes_.at(ctx);
  const Tensor& x = pass.output;
  pass.doutput = ctx.arena.allocate(x.shape(), x.dtype());
  if (language_head_) {
    language_head_->loss_and_gradient(heads.ctx, x, heads.batch, weights.token, sums, pass.doutput);
  } else {
    fill(pass.doutput, 0.0);
  }
  if (label_head_) {
    label_head_->loss_and_gradient(heads.ctx, x, heads.batch, weights, sums, pass.doutput);
  }
}

void Model::backward(const StepContext& outer, const TokenBatch& batch) {
  const StepContext ctx = context_for(outer, batch);
  const Tensor& dx = passes_.at(ctx).doutput;
  if (encoder_) encoder_->start_gradient(ctx);
  const Tensor gradient = transformer_->backward(ctx, dx.view({1, dx.dim(0), dx.dim(1)}));
  if (!gradient.defined()) return;
  embeddings_->backward(ctx, gradient);
  if (encoder_) encoder_->backward(ctx);
}

void Model::train(const StepContext& ctx, const TokenBatch& batch, const LossWeights& weights,
                  const LossSums& sums) {
  forward(ctx, batch);
  loss_and_gradient(ctx, batch, weights, sums);
  backward(ctx, batch);
}

void Model::evaluate(const StepContext& ctx, const TokenBatch& batch, const LossSums& sums,
                     Tensor predictions, const TargetLosses& losses) {
  forward(ctx, batch);
  const HeadPass heads = head_pass(ctx, batch);
  const Tensor& x = passes_.at(ctx).output;
  if (language_head_) {
    language_head_->loss(heads.ctx, x, heads.batch, sums, {.losses = losses.tokens});
  }
  if (label_head_) label_head_->loss(heads.ctx, x, heads.batch, sums, predictions, losses);
  if (embedding_head_) copy(embedding_head_->forward(heads.ctx, x, heads.batch, 1.0f), predictions);
}

Tensor Model::embed(const StepContext& ctx, const TokenBatch& batch, float length) {
  EmbeddingHead& head = embedding_head();
  forward(ctx, batch);
  const HeadPass heads = head_pass(ctx, batch);
  return head.forward(heads.ctx, passes_.at(ctx).output, heads.batch, length);
}

void Model::embed_backward(const StepContext& ctx, const TokenBatch& batch,
                           const Tensor& gradient) {
  EmbeddingHead& head = embedding_head();
  const HeadPass heads = head_pass(ctx, batch);
  Pass& pass = passes_.at(ctx);
  pass.doutput = ctx.arena.allocate(pass.output.shape(), pass.output.dtype());
  fill(pass.doutput, 0.0);
  head.backward(heads.ctx, gradient, heads.batch, pass.doutput);
  backward(ctx, batch);
}

EmbeddingHead& Model::embedding_head() const {
  require(embedding_head_ != nullptr, "this model has no embedding head");
  return *embedding_head_;
}

LanguageHead& Model::language_head() const {
  require(language_head_ != nullptr,
          "this model has another head instead of a language head, so it cannot predict tokens");
  return *language_head_;
}

Tensor Model::token_logits(const StepContext& ctx, const TokenBatch& batch) {
  LanguageHead& head = language_head();
  forward(ctx, batch);
  const HeadPass heads = head_pass(ctx, batch);
  const Tensor states =
      chosen_rows(heads.ctx, passes_.at(ctx).output, heads.batch.target_rows, tp_);
  Tensor logits = ctx.arena.allocate({batch.num_targets(), config_.vocab_size}, DType::f32);
  head.whole_logits(heads.ctx, states, logits);
  return logits;
}

TargetScores Model::token_scores(const StepContext& ctx, const TokenBatch& batch) {
  LanguageHead& head = language_head();
  const auto per_target = [&] { return ctx.arena.allocate({batch.num_targets()}, DType::f32); };
  const TargetScores each = {per_target(), per_target()};
  const LossSums sums{ctx.arena.allocate({LossSums::kCount}, DType::f64)};
  fill(sums.values, 0.0);
  forward(ctx, batch);
  const HeadPass heads = head_pass(ctx, batch);
  head.loss(heads.ctx, passes_.at(ctx).output, heads.batch, sums, each);
  return each;
}

Tensor Model::label_logits(const StepContext& ctx, const TokenBatch& batch) {
  require(label_head_ != nullptr, "this model has no head for labels");
  forward(ctx, batch);
  const HeadPass heads = head_pass(ctx, batch);
  return label_head_->logits(heads.ctx, passes_.at(ctx).output, heads.batch);
}

Tensor Model::extend(const StepContext& ctx, const Tensor& tokens, KeyValueCache& cache,
                     const SourceCache* source) {
  LanguageHead& head = language_head();
  const int64_t batch = tokens.dim(0), length = tokens.dim(1), width = config_.hidden_size;
  require((source != nullptr) == (encoder_ != nullptr) &&
              (source == nullptr || batch % source->sources() == 0),
          "Model::extend: {} texts with {} encoded sources, but {} model needs {}", batch,
          source == nullptr ? 0 : source->sources(), encoder_ ? "this encoder-decoder" : "this",
          encoder_ ? "a divisor of their number" : "none");
  require(cache.length() + length <= config_.seq_length,
          "Model::extend: tokens {} from position {} exceed model.seq_length {}", describe(tokens),
          cache.length(), config_.seq_length);
  const Tensor positions = ctx.arena.allocate(tokens.shape(), DType::i32);
  fill_positions(cache.length(), positions);
  const Tensor x = embeddings_->forward(ctx, tokens, positions, {});
  std::optional<EncodedSource> encoded;
  if (source != nullptr) encoded = source->encoded(ctx, batch / source->sources() * length);
  const Tensor y = transformer_->extend(ctx, x, cache, positions, encoded ? &*encoded : nullptr)
                       .view({batch * length, width});
  cache.advance(length);
  const Tensor last = ctx.arena.allocate({batch, width}, y.dtype());
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t row = b * length + length - 1;
    copy(y.slice(row, row + 1), last.slice(b, b + 1));
  }
  Tensor logits = ctx.arena.allocate({batch, config_.vocab_size}, DType::f32);
  head.whole_logits(ctx, last, logits);
  return logits;
}

SourceCache Model::encode(const StepContext& ctx, const SourceTokens& source) {
  require(encoder_ != nullptr, "only an encoder-decoder encodes sources");
  const EncodedSource& encoded = encoder_->forward(ctx, source, {});
  const MemoryUse use("the keys and values of the sources");
  const auto owned = [](const Tensor& tensor) {
    OwnedTensor copied(tensor.shape(), tensor.dtype(), tensor.device());
    copy(tensor, copied.tensor);
    return copied;
  };
  SourceCache cache;
  for (const Tensor& layer : transformer_->project_source(ctx, encoded)) {
    cache.key_values.push_back(owned(layer));
  }
  cache.documents = owned(source.documents);
  return cache;
}

KeyValueCache Model::make_cache(int64_t batch) const {
  const int64_t groups = split_range(config_.resolved_kv_heads(), tp_.size(), tp_.rank()).size();
  return {config_.resolved_decoder_layers(),
          {batch, groups, config_.seq_length, config_.resolved_head_dim()},
          store_.precision(),
          store_.device()};
}

}  // namespace tessera
