#pragma once

#include <memory>
#include <optional>

#include "core/ops/scalar.h"
#include "core/parameters/parameter.h"
#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/step_context.h"

namespace tessera {

class Embeddings;
class Transformer;
class LanguageHead;
class DocumentHead;
class KeyValueCache;

/// What the gradient of each sum of losses is multiplied by: one over the global number of targets.
struct LossWeights {
  Scalar token = 0.0f;
  Scalar document = 0.0f;
};

/// What the passes over micro-batches add up: one fp64 tensor, so that one all-reduce sums it over
/// the data ranks.
struct LossSums {
  static constexpr int64_t kCount = 4;

  Tensor values;  // (kCount) fp64

  Tensor token_loss() const { return values.slice(0, 1); }  ///< Σ −log p(target)
  Tensor token_correct() const { return values.slice(1, 2); }
  Tensor document_loss() const { return values.slice(2, 3); }  ///< Σ −log p(label)
  Tensor document_correct() const { return values.slice(3, 4); }
};

/// Embeddings, a stack of blocks, and the heads that the configuration asks for, split over the
/// tensor ranks by attention heads, MLP width and vocabulary. What distinguishes one architecture
/// from another is data (models/architecture.h): with the defaults of `gpt` it is the function and
/// has the parameters of Hugging Face's GPT2LMHeadModel, with those of `bert` and a next-sentence
/// head of BertForPreTraining, with a classification head of BertForSequenceClassification.
class Model {
 public:
  /// Declares its parameters in `store`, which must be allocated before the first pass. `store` and
  /// `tp` must outlive the model. Throws if attention does not implement the model's mask.
  Model(const ModelConfig& config, ParameterStore& store, Communicator& tp);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Forward and backward of one micro-batch: adds to the losses in `sums`, and the gradient of
  /// weights.token × token losses + weights.document × document losses to all gradients.
  /// Activations are in ctx.arena, which the caller resets. `batch` lives until the next pass.
  void train(const StepContext& ctx, const TokenBatch& batch, const LossWeights& weights,
             const LossSums& sums);

  /// The losses alone, and how many targets and labels had the largest logit. `predictions` (S)
  /// int32, if defined and the model has a document head, is set to the label with the largest
  /// logit of each document.
  void evaluate(const StepContext& ctx, const TokenBatch& batch, const LossSums& sums,
                Tensor predictions);

  /// The output of the blocks, and in a pre-norm model of the final norm, (N, C) in ctx.arena;
  /// `ctx` is context_for(batch)'s if dropout matters. With sequence parallelism the local rows.
  Tensor hidden_states(const StepContext& ctx, const TokenBatch& batch);

  /// The logits (M, V) fp32 of the tokens in batch.target_rows, whole on every tensor rank. Throws
  /// if the model has no language head.
  Tensor token_logits(const StepContext& ctx, const TokenBatch& batch);

  /// The logits (S, K) of the document head. Throws if the model has none.
  Tensor document_logits(const StepContext& ctx, const TokenBatch& batch);

  /// The logits (B × T, V) fp32 of all positions of tokens (B, T), whole on every tensor rank.
  Tensor logits(const StepContext& ctx, const Tensor& tokens);

  /// For generation: the logits (B, V) fp32 after the last of the T new tokens (B, T), which follow
  /// those in the cache; T is 1 unless the cache is empty.
  Tensor extend(const StepContext& ctx, const Tensor& tokens, KeyValueCache& cache);

  /// An empty cache for `batch` sequences of up to seq_length positions, on the parameters' device.
  KeyValueCache make_cache(int64_t batch) const;

  const Transformer& transformer() const { return *transformer_; }
  const ModelConfig& config() const { return config_; }

 private:
  /// The positions first, first + 1, ... of tokens (B, T).
  Tensor positions_from(const StepContext& ctx, const Tensor& tokens, int64_t first) const;
  LanguageHead& language_head() const;

  ModelConfig config_;
  ParameterStore& store_;
  Communicator& tp_;
  // In the order of the forward pass, which is the order of the flat buffers.
  std::unique_ptr<Embeddings> embeddings_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<LanguageHead> language_head_;  // null for a classifier
  std::unique_ptr<DocumentHead> document_head_;  // null unless documents have labels
};

}  // namespace tessera
