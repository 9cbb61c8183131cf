#pragma once

#include <cstdint>

#include "models/model_config.h"

namespace tessera {

/// Which layers have a window, in the keys of config.json: none; all, with "sliding_window"; or
/// those of "layer_types", if "use_sliding_window" is true.
enum class WindowKeys : uint8_t { none, all_layers, some_layers };

/// Differences between the config.json of Llama's relatives: keys, and the values that
/// `transformers` uses for missing ones. All else is alike.
struct LlamaFormat {
  int64_t vocab_size, seq_length, mlp_size;
  int64_t num_kv_heads;  ///< 0: as many as heads
  int64_t head_dim = 0;  ///< 0: hidden_size / num_heads
  WindowKeys window = WindowKeys::none;
  bool attention_bias = false;  ///< has this key
  bool mlp_bias = false;        ///< has this key
  bool has_head_dim = true;     ///< writes "head_dim"
};

/// Throws for a kind that is no relative of Llama.
LlamaFormat llama_format(ModelKind kind);

}  // namespace tessera
