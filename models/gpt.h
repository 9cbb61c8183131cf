#pragma once

#include <deque>

#include "models/block.h"
#include "models/model_config.h"
#include "models/norm.h"
#include "parallel/vocab_parallel_embedding.h"
#include "parallel/vocab_parallel_loss.h"

namespace tessera {

/// GPT-2 (Radford et al., 2019): learned positions, pre-norm blocks with tanh GELU, a final norm,
/// and an output head tied to the word embedding; the function and the parameters of Hugging Face's
/// GPT2LMHeadModel. Split over the tensor ranks by heads, MLP width and vocabulary.
class Gpt {
 public:
  /// Declares the parameters in `store`, which must be allocated before the first pass. `tp` must
  /// outlive the model.
  Gpt(const ModelConfig& config, ParameterStore& store, Communicator& tp);

  /// Forward and backward of one micro-batch. tokens, targets (B, T) int32, T ≤ seq_length. Adds
  /// the sum of the targets' losses to loss_sum (1) fp64 and scale × its gradient to all gradients.
  /// Takes activations from ctx.arena, which the caller resets.
  void train(const StepContext& ctx, const Tensor& tokens, const Tensor& targets, float scale,
             Tensor loss_sum);

  /// The loss alone.
  void evaluate(const StepContext& ctx, const Tensor& tokens, const Tensor& targets,
                Tensor loss_sum);

  /// The logits (B × T, V) fp32 of all positions, whole on every tensor rank.
  Tensor logits(const StepContext& ctx, const Tensor& tokens);

  /// For generation: the logits (B, V) fp32 after the last of the T new tokens (B, T), which follow
  /// those in the cache; T is 1 unless the cache is empty.
  Tensor extend(const StepContext& ctx, const Tensor& tokens, KeyValueCache& cache);

  /// An empty cache for `batch` sequences of up to seq_length positions, where the parameters are.
  KeyValueCache make_cache(int64_t batch) const;

  const ModelConfig& config() const { return config_; }

 private:
  Tensor embed(const StepContext& ctx, const Tensor& tokens, int64_t first_position);
  Tensor hidden_states(const StepContext& ctx, const Tensor& tokens);  // (B × T, C)

  ModelConfig config_;
  ParameterStore& store_;
  Communicator& tp_;
  VocabParallelEmbedding words_;
  Parameter* positions_;  // (seq_length, C)
  std::deque<Block> blocks_;
  Norm final_norm_;
  VocabParallelLoss head_;
};

}  // namespace tessera
