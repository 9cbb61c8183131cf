#pragma once

#include <optional>

#include "core/ops/activation.h"
#include "models/layers/embeddings.h"
#include "models/losses.h"
#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/layers/replicated_linear.h"
#include "parallel/layers/vocab_parallel_loss.h"
#include "parallel/step_context.h"

namespace tessera {

/// The output head, tied to the word embedding or with a table of its own, and its loss. It
/// computes logits only for tokens that have a target. BERT's head first applies
/// norm(gelu(dense(x))) and has a bias for each word; that of T5 divides x by sqrt(C). µP scales
/// the input of the last product (logit_scale()). Its input is the n local rows (ctx.rows); rows
/// with a target are gathered on every tensor rank.
class LanguageHead {
 public:
  LanguageHead(ParameterStore& store, const ModelConfig& config, VocabParallelEmbedding& words,
               Communicator& tp);

  /// hidden (n, C). Adds to the token losses and to the number of correct predictions. If defined,
  /// overwrites `each` (M) with the scores of each token that has a target, on every rank.
  void loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
            const LossSums& sums, const TargetScores& each = {});

  /// Adds to the token losses and sets dhidden (n, C) to the gradient of weight × loss. dhidden may
  /// not alias hidden. Marks all gradients of the head as final, not that of a tied word table.
  void loss_and_gradient(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                         const Scalar& weight, const LossSums& sums, Tensor dhidden);

  /// x (M, C) → logits (M, V) fp32 of the whole vocabulary, on every tensor rank.
  void whole_logits(const StepContext& ctx, const Tensor& x, Tensor logits);

 private:
  /// BERT's layers between the hidden states and the logits.
  struct Transform {
    Transform(ParameterStore& store, const ModelConfig& config);
    Tensor forward(const StepContext& ctx, const Tensor& x);
    void backward(const StepContext& ctx, Tensor gradient);

    ReplicatedLinear dense;
    Norm norm;
    InFlight<Tensor> hidden;  // (M, C), before GELU
  };

  static std::optional<Transform> make_transform(ParameterStore& store, const ModelConfig& config);
  /// Returns the hidden states (M, C) of the tokens with a target, on every rank. This is `hidden`
  /// itself if all tokens have a target and rows are not sharded.
  Tensor target_states(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch);
  /// The input of the table's product.
  Tensor transformed(const StepContext& ctx, const Tensor& x);
  bool has_scale() const { return scale_ != 1.0f; }

  Communicator& tp_;
  std::optional<Transform> transform_;
  float scale_;                     // of the input of the table's product
  Parameter* own_table_ = nullptr;  // (V, C); null if tied to the word embedding
  VocabParallelLoss loss_;
};

}  // namespace tessera
