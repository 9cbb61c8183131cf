#pragma once

#include <memory>
#include <optional>

#include "core/parameters/parameter.h"
#include "models/losses.h"
#include "models/model_config.h"
#include "models/output_rows.h"
#include "models/token_batch.h"
#include "parallel/in_flight.h"
#include "parallel/layers/target_scores.h"

namespace tessera {

class Embeddings;
class Encoder;
class Transformer;
class LanguageHead;
class LabelHead;
class EmbeddingHead;
class KeyValueCache;
struct SourceCache;

/// Embeddings, a stack of blocks and the configured heads; of an encoder–decoder, whose batches
/// have source texts, also an encoder. Attention heads, MLP width and vocabulary are sharded over
/// the tensor ranks. Architectures differ only in data (models/architecture.h). The `gpt2` defaults
/// match the function and parameters of Hugging Face's GPT2LMHeadModel; `bert` matches
/// BertForPreTraining with a next-sentence head, and BertForSequenceClassification or
/// BertForTokenClassification with a classification head, and a BertModel with the pooling of
/// sentence-transformers with an embedding head.
class Model {
 public:
  /// Declares its parameters in `store`, which must be allocated before the first pass. `store` and
  /// `tp` must outlive the model. Throws if attention does not implement the model's mask.
  Model(const ModelConfig& config, ParameterStore& store, Communicator& tp);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Tells `units` which blocks each pass uses from now on; null: all values stay where they are.
  void listen(UnitListener* units);

  /// train() in three parts: forward(), loss_and_gradient() and backward(). Other micro-batches may
  /// be in flight between them, each in a slot of its own (StepContext::slot) and with activations
  /// in other memory. All parts need the same batch, which must live until backward() has returned,
  /// and the same context, except for its reducer. Activations are in ctx.arena, which the caller
  /// resets.
  void forward(const StepContext& ctx, const TokenBatch& batch);

  /// Adds the losses to `sums`, and adds the gradient of weights.token × token losses +
  /// weights.document × document losses to the gradients of the heads. Not for an embedding head,
  /// whose loss compares the texts of all micro-batches.
  void loss_and_gradient(const StepContext& ctx, const TokenBatch& batch,
                         const LossWeights& weights, const LossSums& sums);

  /// Adds to all other gradients.
  void backward(const StepContext& ctx, const TokenBatch& batch);

  /// All three.
  void train(const StepContext& ctx, const TokenBatch& batch, const LossWeights& weights,
             const LossSums& sums);

  /// Adds the losses and the numbers of correct predictions to `sums`. If `predictions` is defined
  /// and the model has a label head, sets it to the most likely label of each document, (S) int32,
  /// or of each token with a target, (M) int32; with ModelTraits::label_width, to the logits, (S,
  /// K) fp32. Of an embedding head, sets them to the embeddings of length 1, (S, C) fp32, and adds
  /// no loss. Also writes `losses`.
  void evaluate(const StepContext& ctx, const TokenBatch& batch, const LossSums& sums,
                Tensor predictions, const TargetLosses& losses = {});

  /// For an embedding head: runs forward and returns the embeddings of the documents, of this
  /// length, (S, C) fp32 in ctx.arena, the same on every tensor rank.
  Tensor embed(const StepContext& ctx, const TokenBatch& batch, float length = 1.0f);

  /// Runs backward of the last embed() in this slot, whose activations must still be in ctx.arena.
  /// Adds to all gradients, given that of the embeddings, (S, C) fp32.
  void embed_backward(const StepContext& ctx, const TokenBatch& batch, const Tensor& gradient);

  /// The output of the blocks, after the final norm in a pre-norm model: (N, C) in ctx.arena.
  /// Returns the local rows with sequence parallelism. With `outputs`, only these rows. If dropout
  /// matters, pass context_for(batch) as `ctx`.
  Tensor hidden_states(const StepContext& ctx, const TokenBatch& batch,
                       const std::optional<OutputRows>& outputs = {});

  /// Returns the logits (M, V) fp32 of the tokens in batch.target_rows, whole on every tensor rank.
  /// Throws if the model has no language head.
  Tensor token_logits(const StepContext& ctx, const TokenBatch& batch);

  /// Returns the scores of the target of each token that has one, (M) in ctx.arena, the same on
  /// every tensor rank. Throws if the model has no language head.
  TargetScores token_scores(const StepContext& ctx, const TokenBatch& batch);

  /// Returns the logits of the label head: (S, K) of the documents, or (M, K) of the tokens with a
  /// target. Throws if the model has none.
  Tensor label_logits(const StepContext& ctx, const TokenBatch& batch);

  /// For generation: appends T new tokens (B, T) to the cache and returns the logits (B, V) fp32
  /// after the last one. T is 1 unless the cache is empty. An encoder–decoder also needs what
  /// encode() returned for S sources: the B / S texts of a source follow one another.
  Tensor extend(const StepContext& ctx, const Tensor& tokens, KeyValueCache& cache,
                const SourceCache* source = nullptr);

  /// For generation with an encoder–decoder: encodes the sources of a batch.
  SourceCache encode(const StepContext& ctx, const SourceTokens& source);

  /// Returns an empty cache for `batch` sequences of up to seq_length positions, on the parameters'
  /// device.
  KeyValueCache make_cache(int64_t batch) const;

  const Transformer& transformer() const { return *transformer_; }
  const Encoder* encoder() const { return encoder_.get(); }  ///< null unless encoder–decoder
  const ModelConfig& config() const { return config_; }

 private:
  struct Pass {
    std::optional<OutputBatch> read;  // by heads; nullopt: all rows
    Tensor output;                    // (r, C) of the rows that heads read
    Tensor doutput;                   // its gradient, like it
  };
  /// A pass over the rows that heads read.
  struct HeadPass {
    StepContext ctx;
    TokenBatch batch;
  };
  /// After forward().
  HeadPass head_pass(const StepContext& ctx, const TokenBatch& batch) const;
  LanguageHead& language_head() const;
  EmbeddingHead& embedding_head() const;
  ModelConfig config_;
  ReadByHeads read_;
  ParameterStore& store_;
  Communicator& tp_;
  // In forward order, which is the order of the flat buffers.
  std::unique_ptr<Encoder> encoder_;  // null unless this is an encoder–decoder
  std::unique_ptr<Embeddings> embeddings_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<LanguageHead> language_head_;    // null for a classifier
  std::unique_ptr<LabelHead> label_head_;          // null unless documents or words have labels
  std::unique_ptr<EmbeddingHead> embedding_head_;  // null unless documents have embeddings
  InFlight<Pass> passes_;
};

}  // namespace tessera
