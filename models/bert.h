#pragma once

#include <optional>

#include "models/document_head.h"
#include "models/embeddings.h"
#include "models/language_head.h"
#include "models/model.h"
#include "models/transformer.h"

namespace tessera {

/// BERT (Devlin et al., 2019): an encoder whose tokens see all of their document. With the defaults
/// (post-norm, erf GELU, learned positions, two token types, next-sentence head) it is the function
/// and has the parameters of Hugging Face's BertForPreTraining; with model.head = classification of
/// BertForSequenceClassification. Split over the tensor ranks by heads, MLP width and vocabulary.
class Bert final : public Model {
 public:
  Bert(const ModelConfig& config, ParameterStore& store, Communicator& tp);

  void train(const StepContext& ctx, const TokenBatch& batch, const LossScale& scale,
             const LossSums& sums) override;
  void evaluate(const StepContext& ctx, const TokenBatch& batch, const LossSums& sums,
                Tensor predictions) override;
  Tensor hidden_states(const StepContext& ctx, const TokenBatch& batch) override;
  const Transformer& transformer() const override { return transformer_; }

  /// The logits (M, V) fp32 of the tokens in batch.target_rows, whole on every tensor rank. Only
  /// for a model with the pre-training heads.
  Tensor token_logits(const StepContext& ctx, const TokenBatch& batch);

  /// The logits (S, K) of the head for whole documents. Only for a model that has one.
  Tensor document_logits(const StepContext& ctx, const TokenBatch& batch);

 private:
  ModelConfig config_;
  Communicator& tp_;
  Embeddings embeddings_;
  Transformer transformer_;
  std::optional<LanguageHead> language_;
  std::optional<DocumentHead> document_;
};

}  // namespace tessera
