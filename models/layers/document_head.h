#pragma once

#include <string>

#include "models/losses.h"
#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/layers/replicated_linear.h"
#include "parallel/step_context.h"

namespace tessera {

/// Classifies whole documents: pools the hidden state of the first token, [CLS], with
/// tanh(dense(x)), applies dropout, and maps it to K label logits. It is BERT's next-sentence head
/// (K = 2, no dropout) and its classification head. Its parameters are replicated on the tensor
/// ranks; its input is the n local rows (ctx.rows).
class DocumentHead {
 public:
  DocumentHead(ParameterStore& store, const ModelConfig& config, const std::string& name,
               int64_t num_labels, double dropout, Communicator& tp);

  /// hidden (n, C) → logits (S, K) in ctx.arena. Saves what the backward pass needs.
  Tensor logits(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch);

  /// Adds to the document losses and to the number of correct predictions. Writes `predictions` (S)
  /// int32 if defined.
  void loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
            const LossSums& sums, Tensor predictions);

  /// Adds to the document losses, and adds the gradient of scale × loss to dhidden (n, C). Marks
  /// all gradients of the head as final.
  void loss_and_gradient(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                         const Scalar& scale, const LossSums& sums, Tensor dhidden);

 private:
  Dropout dropout(const StepContext& ctx, const TokenBatch& batch) const;

  Communicator& tp_;
  double dropout_;
  ReplicatedLinear pooler_;
  ReplicatedLinear classifier_;
  Tensor pooled_;  // (S, C), after tanh and before dropout
};

}  // namespace tessera
