#pragma once

#include "models/embeddings.h"
#include "models/language_head.h"
#include "models/model.h"
#include "models/transformer.h"

namespace tessera {

/// GPT-2 (Radford et al., 2019): learned positions, pre-norm blocks with tanh GELU, a final norm,
/// and an output head tied to the word embedding; the function and the parameters of Hugging Face's
/// GPT2LMHeadModel. Split over the tensor ranks by heads, MLP width and vocabulary. A token sees
/// those before it in its document, of which model.attention_window may leave out the far ones.
class Gpt final : public Model {
 public:
  Gpt(const ModelConfig& config, ParameterStore& store, Communicator& tp);

  void train(const StepContext& ctx, const TokenBatch& batch, const LossScale& scale,
             const LossSums& sums) override;
  void evaluate(const StepContext& ctx, const TokenBatch& batch, const LossSums& sums,
                Tensor predictions) override;
  Tensor hidden_states(const StepContext& ctx, const TokenBatch& batch) override;
  const Transformer& transformer() const override { return transformer_; }

  /// The logits (B × T, V) fp32 of all positions of tokens (B, T), whole on every tensor rank.
  Tensor logits(const StepContext& ctx, const Tensor& tokens);

  /// For generation: the logits (B, V) fp32 after the last of the T new tokens (B, T), which follow
  /// those in the cache; T is 1 unless the cache is empty.
  Tensor extend(const StepContext& ctx, const Tensor& tokens, KeyValueCache& cache);

  /// An empty cache for `batch` sequences of up to seq_length positions, where the parameters are.
  KeyValueCache make_cache(int64_t batch) const;

  const ModelConfig& config() const { return config_; }

 private:
  /// The positions first, first + 1, ... of tokens (B, T).
  Tensor positions_from(const StepContext& ctx, const Tensor& tokens, int64_t first) const;

  ModelConfig config_;
  ParameterStore& store_;
  Communicator& tp_;
  Embeddings embeddings_;
  Transformer transformer_;
  LanguageHead head_;
};

}  // namespace tessera
