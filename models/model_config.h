#pragma once

#include <cstdint>

namespace tessera {

/// The architectures; models/architecture.h describes how they differ.
enum class ModelKind : uint8_t { gpt, bert };

/// What a model learns to predict: the next token, masked tokens (with model.next_sentence also
/// whether two sentences are consecutive), or the class of a text.
enum class Objective : uint8_t { causal_lm, masked_lm, classification };

/// Where a block normalizes: before each branch, after each residual sum, or as in the
/// architecture's paper.
enum class NormPosition : uint8_t { automatic, pre, post };

/// How a model encodes positions: a learned embedding of each position, or rotary embeddings of
/// queries and keys (Su et al., "RoFormer", 2021).
enum class Positions : uint8_t { learned, rotary };

/// The heads of a BERT: those of pre-training, or one that classifies a text.
enum class Head : uint8_t { pretraining, classification };

/// The hyperparameters of a model, named as in Hugging Face and Megatron-LM. The defaults are a
/// small GPT without a vocabulary.
struct ModelConfig {
  ModelKind kind = ModelKind::gpt;
  int64_t num_layers = 4;
  int64_t hidden_size = 128;
  int64_t num_heads = 4;
  int64_t mlp_size = 0;  ///< 0: 4 × hidden_size; see resolved_mlp_size()
  int64_t seq_length = 128;
  int64_t vocab_size = 0;          ///< the tokenizer's, unless given
  double dropout = 0.0;            ///< after the embeddings and before each residual sum
  double attention_dropout = 0.0;  ///< on the attention weights
  bool bias = true;                ///< on linear layers and norms
  double layer_norm_eps = 1e-5;
  double init_stddev = 0.02;
  NormPosition norm = NormPosition::automatic;
  Positions positions = Positions::learned;
  double rotary_base = 10000.0;
  int64_t attention_window = 0;  ///< tokens with |t − s| < attention_window are visible; 0: all
  int64_t token_types = 0;       ///< BERT's segments; 0: none
  bool next_sentence = false;    ///< BERT's second pre-training head and its pooler
  Head head = Head::pretraining;
  int64_t num_labels = 0;  ///< classes of the classification head

  int64_t resolved_mlp_size() const { return mlp_size == 0 ? 4 * hidden_size : mlp_size; }
  int64_t head_dim() const { return hidden_size / num_heads; }
  bool pre_norm() const;

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace tessera
