#pragma once

#include <optional>
#include <string>

#include "core/ops/value_loss.h"
#include "models/layers/norm.h"
#include "models/losses.h"
#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/layers/replicated_linear.h"
#include "parallel/step_context.h"

namespace tessera {

/// Classifies whole documents: pools the hidden state of the first token, [CLS] (Pooler), applies
/// dropout, and maps it to K label logits. It is BERT's next-sentence head (K = 2, no dropout) and
/// the classification head of all encoders. The loss is the cross-entropy with the document's label
/// or, of a head that predicts numbers, a ValueLoss of its label_values. Its parameters are
/// replicated on the tensor ranks; its input is the n local rows (ctx.rows).
class DocumentHead {
 public:
  DocumentHead(ParameterStore& store, const ModelConfig& config, const std::string& name,
               int64_t num_labels, double dropout, std::optional<ValueLoss> value_loss,
               Communicator& tp);

  /// hidden (n, C) → logits (S, K) in ctx.arena. Saves what the backward pass needs.
  Tensor logits(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch);

  /// Adds to the document losses and, unless it predicts numbers, to the number of correct
  /// predictions. Writes `predictions` if defined: (S) int32, or the logits, (S, K) fp32.
  void loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
            const LossSums& sums, Tensor predictions);

  /// Adds to the document losses, and adds the gradient of scale × loss to dhidden (n, C). Marks
  /// all gradients of the head as final.
  void loss_and_gradient(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                         const Scalar& scale, const LossSums& sums, Tensor dhidden);

 private:
  Dropout dropout(const StepContext& ctx, const TokenBatch& batch) const;
  /// The pooled states of the documents (S, C), given the hidden states of their first tokens.
  Tensor pool(const StepContext& ctx, const Tensor& first);
  /// Replaces the gradient of the pooled states by that of the pooler's linear layer.
  void pool_backward(const StepContext& ctx, Tensor gradient);

  Communicator& tp_;
  double dropout_;
  std::optional<ValueLoss> value_loss_;
  ReplicatedLinear pooler_;
  std::optional<Norm> norm_;  // of Pooler::norm
  ReplicatedLinear classifier_;
  Tensor hidden_;  // (S, C), after the pooler's linear layer; with Pooler::tanh after tanh
};

}  // namespace tessera
