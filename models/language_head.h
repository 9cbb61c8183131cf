#pragma once

#include <optional>

#include "core/ops/gelu.h"
#include "models/embeddings.h"
#include "models/model.h"
#include "parallel/layers/replicated_linear.h"
#include "parallel/layers/vocab_parallel_loss.h"

namespace tessera {

/// The output head, tied to the word embedding, and its loss on the tokens that have a target: no
/// other token's logits are computed. BERT's transforms first, norm(gelu(dense(x))), and has a bias
/// for each word. Of the hidden states a rank has the n rows that it holds (ctx.rows); the head
/// itself has the rows with a target whole on every tensor rank.
class LanguageHead {
 public:
  LanguageHead(ParameterStore& store, const ModelConfig& config, VocabParallelEmbedding& words,
               Communicator& tp);

  /// hidden (n, C). Adds to the token losses and to how many targets were the likeliest.
  void loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
            const LossSums& sums);

  /// Adds to the token losses; dhidden (n, C) = the gradient of scale × loss, which may not alias
  /// hidden. Says that all gradients but the word table's are final.
  void loss_and_gradient(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                         const Scalar& scale, const LossSums& sums, Tensor dhidden);

  /// x (M, C) → logits (M, V) fp32 of all words, whole on every tensor rank.
  void whole_logits(const StepContext& ctx, const Tensor& x, Tensor logits);

 private:
  /// What stands between the hidden states and the logits.
  struct Transform {
    Transform(ParameterStore& store, const ModelConfig& config);
    Tensor forward(const StepContext& ctx, const Tensor& x);
    void backward(const StepContext& ctx, Tensor gradient);

    ReplicatedLinear dense;
    Norm norm;
    Tensor hidden;  // (M, C), before the GELU
  };

  /// The hidden states of the tokens with a target (M, C), on every rank: `hidden` itself where all
  /// have one and the rank holds them all.
  Tensor target_states(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch);
  Tensor transformed(const StepContext& ctx, const Tensor& x);

  Communicator& tp_;
  std::optional<Transform> transform_;
  VocabParallelLoss loss_;
};

}  // namespace tessera
