#include "launch/huggingface/import/import_config.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "launch/checkpoint/model_json.h"
#include "launch/config/label_names.h"
#include "launch/config/validate_kind.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// Reads keys that may be missing or null, which means the default of `transformers`.
class Reader {
 public:
  Reader(const Json& json, const std::string& where) : object_(json, where), json_(json) {}

  const std::string& where() const { return object_.where(); }
  bool has(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && !found->is_null();
  }
  /// Whether the key is present, perhaps as null.
  bool names(const char* key) const { return json_.contains(key); }
  /// The value of the first name that is present.
  int64_t count(std::initializer_list<const char*> names, int64_t by_default) const {
    for (const char* name : names) {
      if (has(name)) return object_.count(name);
    }
    return by_default;
  }
  double number(const char* key, double by_default) const {
    if (!has(key)) return by_default;
    require(json_.at(key).is_number(), "{}: \"{}\" must be a number, but is a {}", where(), key,
            json_.at(key).type_name());
    return json_.at(key).get<double>();
  }
  bool flag(const char* key, bool by_default) const {
    if (!has(key)) return by_default;
    require(json_.at(key).is_boolean(), "{}: \"{}\" must be true or false, but is a {}", where(),
            key, json_.at(key).type_name());
    return json_.at(key).get<bool>();
  }
  std::string text(const char* key, const char* by_default) const {
    return has(key) ? object_.text(key) : by_default;
  }
  const Json& object(const char* key) const { return object_.object(key); }
  const Json& list(const char* key) const { return object_.list(key); }

  /// Throws unless the flag is `wanted`, which is also the default.
  void require_flag(const char* key, bool wanted, const char* why) const {
    require(flag(key, wanted) == wanted, "{}: \"{}\" is {}, but must be {}: {}", where(), key,
            !wanted, wanted, why);
  }
  /// Throws unless the text is one of `known`; the first is the default.
  void require_text(const char* key, std::initializer_list<const char*> known) const {
    const std::string value = text(key, *known.begin());
    std::string list;
    for (const char* name : known) {
      if (value == name) return;
      list += (list.empty() ? "" : " or ") + quote(name);
    }
    fail("{}: \"{}\" is {}, but must be {}: Tessera's model supports nothing else", where(), key,
         quote(value), list);
  }
  /// Throws if the key has a non-empty value.
  void require_empty(const char* key, const char* why) const {
    require(!has(key) || json_.at(key).empty(), "{}: \"{}\" is set, and {}", where(), key, why);
  }

 private:
  JsonObject object_;
  const Json& json_;
};

constexpr const char* kNoSuchThing = "Tessera's model has no such thing";

ModelClass class_of(const Reader& config, const std::optional<std::string>& architecture) {
  if (architecture) return model_class_of(*architecture, "--architecture");
  constexpr const char* kSayWhich = "choose one with --architecture, such as BertForPreTraining";
  require(config.has("architectures"), "{} has no \"architectures\": {}", config.where(),
          kSayWhich);
  const Json& list = config.list("architectures");
  require(list.size() == 1 && list[0].is_string(),
          "{}: \"architectures\" must be one name, but has {} items: {}", config.where(),
          list.size(), kSayWhich);
  return model_class_of(list[0].get_ref<const std::string&>(), config.where());
}

void check_common(const Reader& config, ModelClass model_class) {
  const std::string expected(model_type(model_class));
  const std::string type = config.text("model_type", expected.c_str());
  require(type == expected, "{}: \"model_type\" is {}, but {} is a {}", config.where(), quote(type),
          to_string(model_class), expected);
  config.require_flag("add_cross_attention", false, kNoSuchThing);
  config.require_empty("quantization_config", "quantized weights cannot be imported");
  config.require_empty("pruned_heads", "all layers of Tessera's models have the same heads");
}

void read_gpt2(const Reader& config, ModelConfig& model) {
  config.require_text("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"});
  config.require_flag("scale_attn_weights", true, kNoSuchThing);
  config.require_flag("scale_attn_by_inverse_layer_idx", false, kNoSuchThing);
  config.require_flag("reorder_and_upcast_attn", false, kNoSuchThing);
  model = preset(ModelKind::gpt2);
  model.vocab_size = config.count({"vocab_size"}, 50257);
  model.seq_length = config.count({"n_positions", "max_position_embeddings"}, 1024);
  model.hidden_size = config.count({"n_embd", "hidden_size"}, 768);
  model.num_layers = config.count({"n_layer", "num_hidden_layers"}, 12);
  model.num_heads = config.count({"n_head", "num_attention_heads"}, 12);
  model.mlp_size = config.count({"n_inner"}, 0);
  model.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  model.init_stddev = config.number("initializer_range", 0.02);
  model.dropout = config.number("resid_pdrop", 0.1);
  model.attention_dropout = config.number("attn_pdrop", 0.1);
}

Activation activation_of(const Reader& config) {
  const std::string name = config.text("hidden_act", "silu");
  constexpr std::pair<const char*, Activation> kKnown[] = {
      {"silu", Activation::silu},          {"swish", Activation::silu},
      {"gelu", Activation::gelu},          {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_new", Activation::gelu_tanh}, {"relu", Activation::relu}};
  for (const auto& [known, activation] : kKnown) {
    if (name == known) return activation;
  }
  fail("{}: \"hidden_act\" is {}, but must be silu, gelu, gelu_pytorch_tanh or relu",
       config.where(), quote(name));
}

/// The base of the rotary positions. Scaled positions are refused.
double rotary_base_of(const Reader& config) {
  constexpr const char* kScaled = "scaled rotary positions cannot be imported";
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const Reader rope(config.object(key), fmt::format("{}: \"{}\"", config.where(), key));
    const std::string type = rope.text("rope_type", rope.text("type", "default").c_str());
    require(type == "default", "{}: \"{}\" has the type {}: {}", config.where(), key, quote(type),
            kScaled);
    if (rope.has("rope_theta")) return rope.number("rope_theta", 0.0);
  }
  return config.number("rope_theta", 10000.0);
}

/// The window of Mistral. Qwen2's applies to some layers only, so it must be off.
int64_t window_of(const Reader& config, ModelKind kind) {
  if (kind == ModelKind::mistral) {
    constexpr const char* kKey = "sliding_window";  // null: none
    return config.names(kKey) ? config.count({kKey}, 0) : preset(kind).attention_window;
  }
  config.require_flag("use_sliding_window", false,
                      "the layers of Tessera's models have the same window");
  return 0;
}

/// What `transformers` takes for keys of Llama's kind that are missing; the other defaults are
/// alike.
struct LlamaDefaults {
  int64_t vocab_size, seq_length, mlp_size;
  int64_t num_kv_heads;  ///< 0: as many as heads
};

LlamaDefaults llama_defaults(ModelKind kind) {
  switch (kind) {
    case ModelKind::mistral:
      return {32000, 131072, 14336, 8};
    case ModelKind::qwen2:
      return {151936, 32768, 22016, 32};
    default:
      return {32000, 2048, 11008, 0};
  }
}

void read_llama(const Reader& config, ModelKind kind, bool tied, ModelConfig& model) {
  config.require_flag("attention_bias", false, kNoSuchThing);
  config.require_flag("mlp_bias", false, kNoSuchThing);
  const LlamaDefaults defaults = llama_defaults(kind);
  model = preset(kind);
  model.activation = activation_of(config);
  model.vocab_size = config.count({"vocab_size"}, defaults.vocab_size);
  model.seq_length = config.count({"max_position_embeddings"}, defaults.seq_length);
  model.hidden_size = config.count({"hidden_size"}, 4096);
  model.num_layers = config.count({"num_hidden_layers"}, 32);
  model.num_heads = config.count({"num_attention_heads"}, 32);
  constexpr const char* kGroups = "num_key_value_heads";  // null: as many as heads
  model.num_kv_heads = config.count({kGroups}, config.names(kGroups) ? 0 : defaults.num_kv_heads);
  model.head_dim = config.count({"head_dim"}, 0);
  model.mlp_size = config.count({"intermediate_size"}, defaults.mlp_size);
  model.norm_eps = config.number("rms_norm_eps", 1e-6);
  model.rotary_base = rotary_base_of(config);
  model.attention_window = window_of(config, kind);
  model.init_stddev = config.number("initializer_range", 0.02);
  model.attention_dropout = config.number("attention_dropout", 0.0);
  model.tie_embeddings = tied;
}

void read_bert(const Reader& config, ModelConfig& model) {
  config.require_text("hidden_act", {"gelu", "gelu_python"});
  config.require_text("position_embedding_type", {"absolute"});
  config.require_flag("is_decoder", false, kNoSuchThing);
  model = preset(ModelKind::bert);
  model.vocab_size = config.count({"vocab_size"}, 30522);
  model.seq_length = config.count({"max_position_embeddings"}, 512);
  model.hidden_size = config.count({"hidden_size"}, 768);
  model.num_layers = config.count({"num_hidden_layers"}, 12);
  model.num_heads = config.count({"num_attention_heads"}, 12);
  model.mlp_size = config.count({"intermediate_size"}, 3072);
  model.token_types = config.count({"type_vocab_size"}, 2);
  model.norm_eps = config.number("layer_norm_eps", 1e-12);
  model.init_stddev = config.number("initializer_range", 0.02);
  model.dropout = config.number("hidden_dropout_prob", 0.1);
  model.attention_dropout = config.number("attention_probs_dropout_prob", 0.1);
  require(model.token_types > 0,
          "{}: \"type_vocab_size\" is 0, but BERT adds the embedding of a token's type",
          config.where());
}

/// Whether these are the names that transformers gives to unnamed labels.
bool are_default_names(const std::vector<std::string>& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != fmt::format("LABEL_{}", i)) return false;
  }
  return true;
}

/// Keeps the labels' names if they are valid in data.labels; they are only for display.
void take_labels(std::vector<std::string> labels, ImportedConfig& result) {
  if (are_default_names(labels)) return;
  const auto problem = label_problem(labels);
  if (!problem) {
    result.labels = std::move(labels);
  } else {
    result.notes.push_back(fmt::format(
        "the labels have numbers instead of their names in \"id2label\": {}", *problem));
  }
}

void read_labels(const Reader& config, ImportedConfig& result) {
  const std::string type = config.text("problem_type", "single_label_classification");
  require(type == "single_label_classification",
          "{}: \"problem_type\" is {}, but Tessera's classifier gives a text one label",
          config.where(), quote(type));
  result.model.head = Head::classification;
  result.model.num_labels = config.count({"num_labels"}, 2);
  if (!config.has("id2label")) return;
  const Json& names = config.object("id2label");
  result.model.num_labels = std::ssize(names);
  std::vector<std::string> labels;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = names.find(std::to_string(i));
    require(found != names.end() && found->is_string(),
            "{}: \"id2label\" has {} labels, but no name for {}", config.where(), names.size(), i);
    labels.push_back(found->get<std::string>());
  }
  take_labels(std::move(labels), result);
}

/// Notes what differs only in training.
void note_dropout(const Reader& config, const char* key, ImportedConfig& result) {
  const double dropout = result.model.dropout;
  if (config.number(key, dropout) == dropout) return;
  result.notes.push_back(
      fmt::format("\"{}\" is {}, but model.dropout, {}, replaces it: to use another value, set it "
                  "in the configuration",
                  key, config.number(key, dropout), dropout));
}

}  // namespace

ImportedConfig import_config(const Json& json, const std::string& where,
                             const std::optional<std::string>& architecture) {
  const Reader config(json, where);
  ImportedConfig result;
  result.model_class = class_of(config, architecture);
  check_common(config, result.model_class);
  const ModelKind kind = kind_of(result.model_class);
  result.tied = config.flag("tie_word_embeddings", preset(kind).tie_embeddings);
  ModelConfig& model = result.model;
  switch (result.model_class) {
    case ModelClass::gpt2_lm_head:
      read_gpt2(config, model);
      note_dropout(config, "embd_pdrop", result);
      break;
    case ModelClass::llama_causal_lm:
    case ModelClass::mistral_causal_lm:
    case ModelClass::qwen2_causal_lm:
      read_llama(config, kind, result.tied, model);
      break;
    case ModelClass::bert_pretraining:
    case ModelClass::bert_masked_lm:
    case ModelClass::bert_classification:
      read_bert(config, model);
      model.next_sentence = result.model_class == ModelClass::bert_pretraining;
      break;
  }
  if (result.model_class == ModelClass::bert_classification) {
    read_labels(config, result);
    note_dropout(config, "classifier_dropout", result);
  }
  try {
    require(model.hidden_size > 0 && model.num_heads > 0, "hidden_size and num_heads cannot be 0");
    check_model_kind(model);  // before sizes are derived from invalid ones
    const ModelConfig checked = model_from_json(architecture_json(model), "model");
    require(0.0 <= model.dropout && model.dropout < 1.0 && 0.0 <= model.attention_dropout &&
                model.attention_dropout < 1.0 && model.init_stddev >= 0.0,
            "a dropout must be at least 0 and less than 1, and \"initializer_range\" not negative");
    model.mlp_size = checked.mlp_size;
    model.num_kv_heads = checked.num_kv_heads;
    model.head_dim = checked.head_dim;
  } catch (const Error& error) {
    fail("{} describes a model that Tessera does not support: {}", where, error.what());
  }
  return result;
}

}  // namespace tessera
