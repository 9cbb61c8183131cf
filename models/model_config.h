#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// The architecture of a model, in Hugging Face's and Megatron-LM's words. Defaults are those of
/// GPT-2 124M.
struct ModelConfig {
  std::string kind = "gpt";
  int64_t num_layers = 12;
  int64_t hidden_size = 768;
  int64_t num_heads = 12;
  int64_t mlp_size = 0;  ///< 0 means 4 × hidden_size; see resolved_mlp_size()
  int64_t seq_length = 1024;
  int64_t vocab_size = 50257;
  double dropout = 0.1;            ///< after the embeddings and before each residual sum
  double attention_dropout = 0.1;  ///< on the attention weights
  bool bias = true;                ///< on linear layers and norms
  double layer_norm_eps = 1e-5;
  double init_stddev = 0.02;

  int64_t resolved_mlp_size() const { return mlp_size == 0 ? 4 * hidden_size : mlp_size; }
  int64_t head_dim() const { return hidden_size / num_heads; }

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace tessera
