#pragma once

#include <string>

#include "models/model.h"
#include "parallel/layers/replicated_linear.h"

namespace tessera {

/// A head for documents as a whole: the hidden state of a document's first token, [CLS], through
/// the pooler, tanh(dense(x)), and a linear layer to the logits of K labels, with dropout between
/// them. It is BERT's next-sentence head (K = 2, no dropout) and its classification head. Whole on
/// every tensor rank, of which each has the n hidden states that it holds (ctx.rows).
class DocumentHead {
 public:
  DocumentHead(ParameterStore& store, const ModelConfig& config, const std::string& name,
               int64_t num_labels, double dropout, Communicator& tp);

  /// hidden (n, C) → logits (S, K) in ctx.arena. Keeps what the backward pass reads.
  Tensor logits(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch);

  /// Adds to the document losses and to how many labels were the likeliest; writes `predictions`
  /// (S) int32, where defined.
  void loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
            const LossSums& sums, Tensor predictions);

  /// Adds to the document losses, and to dhidden (n, C) the gradient of scale × loss. Says that all
  /// gradients are final.
  void loss_and_gradient(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                         const Scalar& scale, const LossSums& sums, Tensor dhidden);

 private:
  Dropout dropout(const StepContext& ctx, const TokenBatch& batch) const;

  Communicator& tp_;
  double dropout_;
  ReplicatedLinear pooler_;
  ReplicatedLinear classifier_;
  Tensor pooled_;  // (S, C), after the tanh, before the dropout
};

}  // namespace tessera
