#include "launch/huggingface/llama_format.h"

#include "core/error.h"
#include "models/architecture.h"

namespace tessera {

LlamaFormat llama_format(ModelKind kind) {
  switch (kind) {  // no default: the compiler names an architecture that is missing
    case ModelKind::llama:
      return {.vocab_size = 32000,
              .seq_length = 2048,
              .mlp_size = 11008,
              .num_kv_heads = 0,
              .attention_bias = true,
              .mlp_bias = true};
    case ModelKind::mistral:
      return {.vocab_size = 32000,
              .seq_length = 131072,
              .mlp_size = 14336,
              .num_kv_heads = 8,
              .window = WindowKeys::all_layers};
    case ModelKind::qwen2:
      return {.vocab_size = 151936,
              .seq_length = 32768,
              .mlp_size = 22016,
              .num_kv_heads = 32,
              .window = WindowKeys::some_layers,
              .has_head_dim = false};
    case ModelKind::qwen3:
      return {.vocab_size = 151936,
              .seq_length = 32768,
              .mlp_size = 22016,
              .num_kv_heads = 32,
              .head_dim = 128,
              .window = WindowKeys::some_layers,
              .attention_bias = true};
    case ModelKind::gpt2:
    case ModelKind::bert:
    case ModelKind::roberta:
    case ModelKind::modernbert:
    case ModelKind::encoder_decoder:
    case ModelKind::t5:
    case ModelKind::vit:
      break;
  }
  fail("{} has no config.json like Llama's", to_string(kind));
}

}  // namespace tessera
