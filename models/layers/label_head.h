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

/// The items that a head labels: each document, or each token with a target.
enum class LabelsOf : uint8_t { documents, tokens };

struct LabelHeadSpec {
  std::string name;  ///< of the last layer's parameters
  int64_t num_labels = 0;
  double dropout = 0.0;
  LabelsOf labels_of = LabelsOf::documents;
  std::optional<ValueLoss> value_loss = {};  ///< of documents, instead of the cross-entropy
  Pooling pooling = Pooling::cls;            ///< of documents
};

/// Predicts labels of documents or tokens from R hidden states: that of each document (pooling.h),
/// or those of the M tokens with a target. It transforms them (Pooler; a tanh pooler pools only
/// documents), applies dropout, and maps them to K label logits, which µP scales (logit_scale()).
/// It is BERT's next-sentence head (K = 2, no dropout) and the classification heads of all
/// encoders. The loss is the cross-entropy with the row's label or, of a head that predicts
/// numbers, a ValueLoss of the document's label_values. Its parameters are replicated on the tensor
/// ranks; its input is the n local rows (ctx.rows).
class LabelHead {
 public:
  LabelHead(ParameterStore& store, const ModelConfig& config, const LabelHeadSpec& spec,
            Communicator& tp);

  /// hidden (n, C) → logits (R, K) in ctx.arena. Saves what the backward pass needs.
  Tensor logits(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch);

  /// Adds to the losses of documents or tokens and, unless it predicts numbers, to the number of
  /// correct predictions. Writes `predictions` if defined: (R) int32, or the logits, (R, K) fp32;
  /// and of `losses` those of its rows, unless it predicts numbers.
  void loss(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
            const LossSums& sums, Tensor predictions, const TargetLosses& losses = {});

  /// Adds to the losses, and adds the gradient of weight × loss to dhidden (n, C). Marks all
  /// gradients of the head as final.
  void loss_and_gradient(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                         const LossWeights& weights, const LossSums& sums, Tensor dhidden);

 private:
  bool of_tokens() const { return spec_.labels_of == LabelsOf::tokens; }
  bool has_scale() const { return scale_ != 1.0f; }
  Tensor rows(const TokenBatch& batch) const;  // (R)
  /// The hidden states (R, C), and their gradient.
  Tensor states(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch) const;
  void states_backward(const StepContext& ctx, const Tensor& dstates, const TokenBatch& batch,
                       Tensor dhidden) const;
  const Tensor& labels(const TokenBatch& batch) const;  // (R)
  Tensor loss_sum(const LossSums& sums) const;
  Dropout dropout(const StepContext& ctx, const TokenBatch& batch) const;
  /// The pooled states (R, C) of the rows' hidden states.
  Tensor pool(const StepContext& ctx, const Tensor& states);
  /// Returns the gradient of the rows' hidden states, given that of the pooled ones, which it may
  /// overwrite.
  Tensor pool_backward(const StepContext& ctx, Tensor gradient);

  LabelHeadSpec spec_;
  Communicator& tp_;
  std::optional<ReplicatedLinear> pooler_;
  std::optional<Norm> norm_;  // of Pooler::norm
  ReplicatedLinear classifier_;
  float scale_;  // of the classifier's input
  InFlight<Tensor>
      hidden_;  // (R, C), after the pooler's linear layer; with Pooler::tanh after tanh
};

}  // namespace tessera
