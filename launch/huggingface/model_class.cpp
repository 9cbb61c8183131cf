#include "launch/huggingface/model_class.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "core/error.h"
#include "launch/support/text/json.h"
#include "models/architecture.h"

namespace tessera {
namespace {

struct NamedClass {
  std::string_view name;
  ModelClass model_class;
};

/// The first name of a class is its canonical one.
constexpr std::array<NamedClass, 8> kClasses = {{
    {"GPT2LMHeadModel", ModelClass::gpt2_lm_head},
    {"GPT2Model", ModelClass::gpt2_lm_head},
    {"LlamaForCausalLM", ModelClass::llama_causal_lm},
    {"MistralForCausalLM", ModelClass::mistral_causal_lm},
    {"Qwen2ForCausalLM", ModelClass::qwen2_causal_lm},
    {"BertForPreTraining", ModelClass::bert_pretraining},
    {"BertForMaskedLM", ModelClass::bert_masked_lm},
    {"BertForSequenceClassification", ModelClass::bert_classification},
}};

/// `key_and_value`: "model.norm_position is pre".
void require_expressible(bool expressible, std::string_view key_and_value, std::string_view why) {
  require(expressible,
          "the model cannot be exported: {}, but {}; no class of transformers that Tessera knows "
          "computes this",
          key_and_value, why);
}

}  // namespace

std::string_view to_string(ModelClass model_class) {
  for (const NamedClass& named : kClasses) {
    if (named.model_class == model_class) return named.name;
  }
  return "?";
}

std::string_view model_type(ModelClass model_class) {
  switch (model_class) {
    case ModelClass::gpt2_lm_head:
      return "gpt2";
    case ModelClass::llama_causal_lm:
      return "llama";
    case ModelClass::mistral_causal_lm:
      return "mistral";
    case ModelClass::qwen2_causal_lm:
      return "qwen2";
    case ModelClass::bert_pretraining:
    case ModelClass::bert_masked_lm:
    case ModelClass::bert_classification:
      return "bert";
  }
  return "?";
}

ModelClass model_class_of(std::string_view name, const std::string& where) {
  std::string known;
  for (const NamedClass& named : kClasses) {
    if (named.name == name) return named.model_class;
    if (to_string(named.model_class) != named.name) continue;
    known += (known.empty() ? "" : ", ") + std::string(named.name);
  }
  fail("{}: the architecture {} cannot be imported; supported are {}", where, quote(name), known);
}

namespace {

/// Requires what the kind's class in transformers fixes, and `except` leaves out.
void require_preset(const ModelConfig& config, std::initializer_list<std::string_view> except) {
  const ModelConfig defaults = preset(config.kind);
  const std::string_view name = architecture_of(config.kind).display_name;
  const auto same = [&](std::string_view key, bool equal) {
    if (std::ranges::find(except, key) != except.end()) return;
    require_expressible(equal, fmt::format("model.{} is not the default of {}", key, name),
                        fmt::format("{} has no such option in transformers", name));
  };
  same("norm", config.norm == defaults.norm);
  same("activation", config.activation == defaults.activation);
  same("gated_mlp", config.gated_mlp == defaults.gated_mlp);
  same("bias", config.bias == defaults.bias);
  same("tie_embeddings", config.tie_embeddings == defaults.tie_embeddings);
  same("num_kv_heads", config.resolved_kv_heads() == config.num_heads);
  same("head_size", config.attention_size() == config.hidden_size);
}

ModelClass class_of_llama(const ModelConfig& config) {
  require_expressible(config.positions == Positions::rotary, "model.positions is learned",
                      "its positions are rotary");
  require_expressible(config.pre_norm(), "model.norm_position is post",
                      "it normalizes before each branch");
  require_expressible(config.dropout == 0.0, fmt::format("model.dropout is {}", config.dropout),
                      "it has no dropout");
  require_preset(config, {"activation", "tie_embeddings", "num_kv_heads", "head_size"});
  const bool window = config.attention_window > 0 && config.attention_window < config.seq_length;
  switch (config.kind) {
    case ModelKind::mistral:
      return ModelClass::mistral_causal_lm;
    case ModelKind::qwen2:
      require_expressible(config.attention_size() == config.hidden_size,
                          fmt::format("model.head_size is {}", config.head_size),
                          "the size of Qwen2's heads is hidden_size / num_heads");
      require_expressible(!window,
                          fmt::format("model.attention_window is {}", config.attention_window),
                          "Qwen2's first layers see all of the text");
      return ModelClass::qwen2_causal_lm;
    default:
      require_expressible(!window,
                          fmt::format("model.attention_window is {}", config.attention_window),
                          "attention of Llama reaches all of the text");
      return ModelClass::llama_causal_lm;
  }
}

void require_whole_learned(const ModelConfig& config) {
  require_expressible(config.positions == Positions::learned, "model.positions is rotary",
                      "GPT-2 and BERT learn an embedding of each position");
  require_expressible(config.attention_window == 0 || config.attention_window >= config.seq_length,
                      fmt::format("model.attention_window is {}", config.attention_window),
                      "GPT-2 and BERT attend to all of the text");
  require_preset(config, {"bias"});
  require_expressible(config.bias != Bias::qkv, "model.bias is qkv",
                      "GPT-2 and BERT have a bias in all layers");
}

}  // namespace

ModelClass model_class_of(const ModelConfig& config) {
  switch (config.kind) {  // no default: the compiler names an architecture without a mapping
    case ModelKind::gpt2:
      require_whole_learned(config);
      require_expressible(config.pre_norm(), "model.norm_position is post",
                          "GPT-2 normalizes before each branch");
      return ModelClass::gpt2_lm_head;
    case ModelKind::llama:
    case ModelKind::mistral:
    case ModelKind::qwen2:
      return class_of_llama(config);
    case ModelKind::bert:
      require_whole_learned(config);
      require_expressible(!config.pre_norm(), "model.norm_position is pre",
                          "BERT normalizes after each residual sum");
      if (config.head == Head::classification) return ModelClass::bert_classification;
      return config.next_sentence ? ModelClass::bert_pretraining : ModelClass::bert_masked_lm;
  }
  fail("{} is not an architecture", static_cast<int>(config.kind));
}

}  // namespace tessera
