#include "launch/huggingface/model_class.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "core/error.h"
#include "launch/checkpoint/model_json.h"
#include "launch/support/text/json.h"
#include "models/architecture.h"

namespace tessera {
namespace {

struct ClassInfo {
  std::string_view name;
  ModelClass model_class;
  ModelKind kind;
  Head head = Head::pretraining;
};

/// The first name of a class, and the first class with a kind and a head, are those of an export.
constexpr ClassInfo kClasses[] = {
    {"GPT2LMHeadModel", ModelClass::gpt2_lm_head, ModelKind::gpt2},
    {"GPT2Model", ModelClass::gpt2_lm_head, ModelKind::gpt2},
    {"LlamaForCausalLM", ModelClass::llama_causal_lm, ModelKind::llama},
    {"MistralForCausalLM", ModelClass::mistral_causal_lm, ModelKind::mistral},
    {"Qwen2ForCausalLM", ModelClass::qwen2_causal_lm, ModelKind::qwen2},
    {"Qwen3ForCausalLM", ModelClass::qwen3_causal_lm, ModelKind::qwen3},
    {"BertForPreTraining", ModelClass::bert_pretraining, ModelKind::bert},
    {"BertForMaskedLM", ModelClass::bert_masked_lm, ModelKind::bert},
    {"BertForSequenceClassification", ModelClass::bert_classification, ModelKind::bert,
     Head::classification},
    {"BertForTokenClassification", ModelClass::bert_token_classification, ModelKind::bert,
     Head::token_classification},
    {"RobertaForMaskedLM", ModelClass::roberta_masked_lm, ModelKind::roberta},
    {"RobertaForSequenceClassification", ModelClass::roberta_classification, ModelKind::roberta,
     Head::classification},
    {"RobertaForTokenClassification", ModelClass::roberta_token_classification, ModelKind::roberta,
     Head::token_classification},
    {"ModernBertForMaskedLM", ModelClass::modernbert_masked_lm, ModelKind::modernbert},
    {"ModernBertForSequenceClassification", ModelClass::modernbert_classification,
     ModelKind::modernbert, Head::classification},
    {"ModernBertForTokenClassification", ModelClass::modernbert_token_classification,
     ModelKind::modernbert, Head::token_classification},
    {"BertModel", ModelClass::bert_embedding, ModelKind::bert, Head::embedding},
    {"RobertaModel", ModelClass::roberta_embedding, ModelKind::roberta, Head::embedding},
    {"ModernBertModel", ModelClass::modernbert_embedding, ModelKind::modernbert, Head::embedding},
    {"T5ForConditionalGeneration", ModelClass::t5_conditional_generation, ModelKind::t5},
    {"ViTForImageClassification", ModelClass::vit_classification, ModelKind::vit,
     Head::classification},
};

const ClassInfo& info_of(ModelClass model_class) {
  const auto* found = std::ranges::find(kClasses, model_class, &ClassInfo::model_class);
  require(found != std::end(kClasses), "the class with the number {} is missing in kClasses",
          static_cast<int>(model_class));
  return *found;
}

/// `key_and_value`: "model.norm_position is pre".
void require_expressible(bool expressible, std::string_view key_and_value, std::string_view why) {
  require(expressible,
          "the model cannot be exported: {}, but {}; no class of transformers that Tessera knows "
          "computes this",
          key_and_value, why);
}

}  // namespace

std::string_view to_string(ModelClass model_class) { return info_of(model_class).name; }

ModelKind kind_of(ModelClass model_class) { return info_of(model_class).kind; }

Head head_of(ModelClass model_class) { return info_of(model_class).head; }

std::string_view problem_type_name(ProblemType type) {
  switch (type) {
    case ProblemType::single_label_classification:
      return "single_label_classification";
    case ProblemType::multi_label_classification:
      return "multi_label_classification";
    case ProblemType::regression:
      return "regression";
  }
  fail("{} is not a problem type", static_cast<int>(type));
}

std::optional<ProblemType> problem_type_of(std::string_view name) {
  for (const ProblemType type :
       {ProblemType::single_label_classification, ProblemType::multi_label_classification,
        ProblemType::regression}) {
    if (problem_type_name(type) == name) return type;
  }
  return std::nullopt;
}

std::string_view model_type(ModelClass model_class) {
  return architecture_of(kind_of(model_class)).name;
}

ModelClass model_class_of(std::string_view name, const std::string& where) {
  std::string known;
  for (const ClassInfo& info : kClasses) {
    if (info.name == name) return info.model_class;
    if (to_string(info.model_class) != info.name) continue;
    known += (known.empty() ? "" : ", ") + std::string(info.name);
  }
  fail("{}: the architecture {} cannot be imported; supported are {}", where, quote(name), known);
}

namespace {

std::string_view name_of(ModelKind kind) { return architecture_of(kind).display_name; }

/// Requires the keys to have the kind's defaults, which its class in transformers fixes.
void require_defaults(const ModelConfig& config, std::initializer_list<const char*> keys) {
  const Json model = architecture_json(config), defaults = architecture_json(preset(config.kind));
  const auto text = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const char* key : keys) {
    require_expressible(
        model.at(key) == defaults.at(key), fmt::format("model.{} is {}", key, text(model.at(key))),
        fmt::format("{} in transformers has {}", name_of(config.kind), text(defaults.at(key))));
  }
}

void require_no_window(const ModelConfig& config) {
  require_expressible(config.attention_window == 0 || config.attention_window >= config.seq_length,
                      fmt::format("model.attention_window is {}", config.attention_window),
                      fmt::format("{} attends to all of the text", name_of(config.kind)));
}

/// No class of transformers that a model is exported to has these.
void require_no_pattern(const ModelConfig& config) {
  require_defaults(config, {"attention_dilation", "global_tokens", "attention_prefix"});
  require_expressible(
      !config.attention_mask_file.has_value(), "model.attention_mask_file is set",
      fmt::format("{} in transformers has no mask of its own positions", name_of(config.kind)));
}

void require_key_of_each_head(const ModelConfig& config) {
  require_expressible(config.resolved_kv_heads() == config.num_heads,
                      fmt::format("model.num_kv_heads is {}", config.num_kv_heads),
                      fmt::format("each head of {} has a key and a value", name_of(config.kind)));
}

void require_heads_as_wide_as_model(const ModelConfig& config) {
  require_expressible(
      config.attention_size() == config.hidden_size,
      fmt::format("model.head_dim is {}", config.resolved_head_dim()),
      fmt::format("the heads of {} have hidden_size / num_heads columns", name_of(config.kind)));
}

/// Scores are divided by the root of the head size, whatever that is. An export with µP multiplies
/// queries by what differs (export/plain_scales.h).
void require_same_scale(const ModelConfig& config) {
  if (config.has_mup()) return;
  ModelConfig unset = config;
  unset.attention_scale = 0.0;
  require_expressible(config.resolved_attention_scale() == unset.resolved_attention_scale(),
                      fmt::format("model.attention_scale is {}", config.attention_scale),
                      fmt::format("{} in transformers has {}", name_of(config.kind),
                                  unset.resolved_attention_scale()));
}

/// GPT-2, BERT or RoBERTa. A missing bias is one of zeros.
void require_gpt2_or_bert(const ModelConfig& config) {
  require_expressible(config.classifier_pooling == Pooling::cls, "model.classifier_pooling is mean",
                      fmt::format("{} classifies [CLS]", name_of(config.kind)));
  require_defaults(config, {"norm", "norm_position", "gated_mlp", "positions", "activation",
                            "tie_embeddings", "scaled_logits", "qk_norm", "embedding_norm"});
  require_same_scale(config);
  const bool in_all = config.bias == Bias::all || config.bias == Bias::none;
  require_expressible(
      in_all, fmt::format("model.bias is {}", config.bias == Bias::qkv ? "qkv" : "attention"),
      fmt::format("{} has a bias in all layers", name_of(config.kind)));
  require_key_of_each_head(config);
  require_heads_as_wide_as_model(config);
  require_no_window(config);
}

void require_llama(const ModelConfig& config) {
  require_defaults(config, {"norm", "norm_position", "gated_mlp", "positions", "qk_norm",
                            "local_rotary_base", "embedding_norm", "scaled_logits"});
  require_same_scale(config);
  const bool has_key = (config.kind == ModelKind::llama && config.bias != Bias::qkv) ||
                       (config.kind == ModelKind::qwen3 && config.bias == Bias::attention);
  if (!has_key) require_defaults(config, {"bias"});
}

void require_same_window(const ModelConfig& config) {
  bool same = true;
  for (int64_t layer = 1; layer < config.num_layers; ++layer) {
    same = same && config.is_local(layer) == config.is_local(0);
  }
  require_expressible(same, fmt::format("model.window_pattern is {}", config.window_pattern),
                      fmt::format("all layers of {} have the same window", name_of(config.kind)));
}

void require_modernbert(const ModelConfig& config) {
  require_defaults(config, {"norm", "norm_position", "gated_mlp", "positions", "bias",
                            "tie_embeddings", "scaled_logits", "qk_norm", "embedding_norm"});
  require_same_scale(config);
  require_key_of_each_head(config);
  require_heads_as_wide_as_model(config);
}

void require_t5(const ModelConfig& config) {
  require_defaults(config, {"norm", "norm_position", "bias", "positions", "qk_norm",
                            "embedding_norm", "attention_scale", "attention_window"});
  require_key_of_each_head(config);
  require_expressible(config.activation != Activation::gelu || !config.gated_mlp,
                      "model.activation is gelu, and model.gated_mlp is true",
                      "the gated GELU of T5 in transformers is gelu_tanh");
  // transformers 4 has one key for both.
  require_expressible(
      config.scaled_logits == config.tie_embeddings,
      fmt::format("model.scaled_logits is {}", config.scaled_logits),
      fmt::format("model.tie_embeddings is {}, and T5 in transformers divides the hidden states by "
                  "sqrt(hidden_size) if its head is the token embedding",
                  config.tie_embeddings));
}

void require_vit(const ModelConfig& config) {
  require_expressible(config.classifier_pooling == Pooling::cls, "model.classifier_pooling is mean",
                      "ViT in transformers classifies the class token");
  require_defaults(config, {"norm", "norm_position", "bias", "gated_mlp", "positions", "qk_norm",
                            "embedding_norm"});
  require_same_scale(config);
  require_key_of_each_head(config);
  require_heads_as_wide_as_model(config);
  require_no_window(config);
}

/// Throws unless the class of the kind computes what the model does.
void require_kind(const ModelConfig& config) {
  switch (config.kind) {  // no default: the compiler names an architecture without a mapping
    case ModelKind::gpt2:
    case ModelKind::bert:
    case ModelKind::roberta:
      return require_gpt2_or_bert(config);
    case ModelKind::llama:
      require_llama(config);
      return require_no_window(config);
    case ModelKind::mistral:
      require_llama(config);
      return require_same_window(config);
    case ModelKind::qwen2:
      require_llama(config);
      return require_heads_as_wide_as_model(config);
    case ModelKind::qwen3:
      return require_llama(config);
    case ModelKind::modernbert:
      return require_modernbert(config);
    case ModelKind::t5:
      return require_t5(config);
    case ModelKind::vit:
      return require_vit(config);
    case ModelKind::encoder_decoder:
      break;
  }
  fail("{} has no counterpart in transformers", name_of(config.kind));
}

}  // namespace

ModelClass model_class_of(const ModelConfig& config) {
  require_no_pattern(config);
  require_kind(config);
  const bool is_bert = config.kind == ModelKind::bert && config.head == Head::pretraining;
  if (is_bert && !config.next_sentence) return ModelClass::bert_masked_lm;
  const auto* found = std::ranges::find_if(kClasses, [&](const ClassInfo& info) {
    return info.kind == config.kind && info.head == config.head;
  });
  // Kinds with a single class have it whatever their head is.
  if (found == std::end(kClasses)) {
    found = std::ranges::find(kClasses, config.kind, &ClassInfo::kind);
  }
  return found->model_class;
}

}  // namespace tessera
