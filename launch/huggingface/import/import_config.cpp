#include "launch/huggingface/import/import_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "launch/checkpoint/model_json.h"
#include "launch/config/label_names.h"
#include "launch/config/validate_kind.h"
#include "launch/huggingface/import/foreign_json.h"
#include "launch/huggingface/llama_format.h"
#include "launch/huggingface/tensor_names.h"
#include "models/architecture.h"

namespace tessera {
namespace {

constexpr const char* kNoSuchThing = "Tessera's model has no such thing";

ModelClass class_of(const ForeignJson& config, const std::optional<std::string>& architecture) {
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

void check_common(const ForeignJson& config, ModelClass model_class) {
  const std::string expected(model_type(model_class));
  const std::string type = config.text("model_type", expected.c_str());
  require(type == expected, "{}: \"model_type\" is {}, but {} is a {}", config.where(), quote(type),
          to_string(model_class), expected);
  config.require_flag("add_cross_attention", false, kNoSuchThing);
  config.require_empty("quantization_config", "quantized weights cannot be imported");
  config.require_empty("pruned_heads", "all layers of Tessera's models have the same heads");
}

void read_gpt2(const ForeignJson& config, ModelConfig& model) {
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

/// `name` is the value of `key`, or a part of it after `prefix`.
Activation activation_named(const ForeignJson& config, const char* key, const std::string& name,
                            const std::string& prefix) {
  constexpr std::pair<const char*, Activation> kKnown[] = {
      {"silu", Activation::silu},          {"swish", Activation::silu},
      {"gelu", Activation::gelu},          {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_new", Activation::gelu_tanh}, {"relu", Activation::relu}};
  std::string names;
  for (const auto& [known, activation] : kKnown) {
    if (name == known) return activation;
    names += (names.empty() ? "" : ", ") + prefix + known;
  }
  fail("{}: \"{}\" is {}, but must be one of {}", config.where(), key, quote(prefix + name), names);
}

Activation activation_of(const ForeignJson& config, const char* key, const char* by_default) {
  return activation_named(config, key, config.text(key, by_default), "");
}

/// YaRN's attention factor, which DeepSeek's models give as two numbers; 0 without any.
double yarn_attention_factor(const ForeignJson& rope, double factor) {
  constexpr const char* kKey = "attention_factor";
  if (rope.has(kKey)) {
    const double given = rope.number(kKey, 0.0);
    require(given > 0.0, "{}: \"{}\" is {}, but must be above 0", rope.where(), kKey, given);
    require(factor > 1.0 || given == 1.0,
            "{}: \"{}\" is {}, but must be 1 or missing, because \"factor\" is 1: Tessera scales "
            "attention only if it stretches the positions",
            rope.where(), kKey, given);
    return given;
  }
  const double scale = rope.number("mscale", 0.0), all = rope.number("mscale_all_dim", 0.0);
  if (scale == 0.0 || all == 0.0) return 0.0;
  const auto of = [&](double times) { return 0.1 * times * std::log(factor) + 1.0; };
  return of(scale) / of(all);
}

void require_all_columns_rotate(const ForeignJson& json) {
  constexpr const char* kKey = "partial_rotary_factor";
  const double part = json.number(kKey, 1.0);
  require(part == 1.0, "{}: \"{}\" is {}, but must be 1: Tessera rotates all columns of a head",
          json.where(), kKey, part);
}

/// Reads the scaling of rotary positions from an object with the keys of `rope_parameters`.
void read_scaling(const ForeignJson& config, const ForeignJson& rope, int64_t seq_length,
                  RotaryFrequencies& rotary) {
  const std::string type = rope.text("rope_type", rope.text("type", "default").c_str());
  constexpr std::pair<const char*, RotaryScaling> kKnown[] = {{"default", RotaryScaling::none},
                                                              {"linear", RotaryScaling::linear},
                                                              {"llama3", RotaryScaling::llama3},
                                                              {"yarn", RotaryScaling::yarn}};
  const auto found =
      std::ranges::find_if(kKnown, [&](const auto& known) { return type == known.first; });
  require(found != std::end(kKnown),
          "{}: the type is {}, but only default, linear, llama3 and yarn can be imported",
          rope.where(), quote(type));
  require_all_columns_rotate(rope);
  rotary.scaling = found->second;
  if (rotary.scaling == RotaryScaling::none) return;
  rotary.factor = rope.number("factor", 0.0);
  require(rotary.factor >= 1.0, "{}: \"factor\" must be a number of at least 1", rope.where());
  const bool is_yarn = rotary.scaling == RotaryScaling::yarn;
  const double attention_factor = is_yarn ? yarn_attention_factor(rope, rotary.factor) : 0.0;
  if (rotary.factor == 1.0) {  // as published for models that are not stretched yet
    rotary = {.base = rotary.base};
    return;
  }
  if (rotary.scaling == RotaryScaling::linear) return;
  constexpr const char* kLength = "original_max_position_embeddings";
  rotary.original_length = rope.count({kLength}, config.count({kLength}, seq_length));
  if (rotary.scaling == RotaryScaling::llama3) {
    rotary.low_freq_factor = rope.number("low_freq_factor", rotary.low_freq_factor);
    rotary.high_freq_factor = rope.number("high_freq_factor", rotary.high_freq_factor);
    return;
  }
  rope.require_flag("truncate", true, "Tessera rounds the range of frequencies in between");
  rotary.beta_fast = rope.number("beta_fast", rotary.beta_fast);
  rotary.beta_slow = rope.number("beta_slow", rotary.beta_slow);
  rotary.attention_factor = attention_factor;
}

RotaryFrequencies rotary_of(const ForeignJson& config, int64_t seq_length) {
  require_all_columns_rotate(config);
  RotaryFrequencies rotary{.base = config.number("rope_theta", 10000.0)};
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const ForeignJson rope(config.object(key), fmt::format("{}: \"{}\"", config.where(), key));
    rotary.base = rope.number("rope_theta", rotary.base);
    read_scaling(config, rope, seq_length, rotary);
  }
  return rotary;
}

/// The shortest pattern that repeats to these letters.
std::string shortest_pattern(const std::string& letters) {
  for (size_t length = 1; length < letters.size(); ++length) {
    bool repeats = true;
    for (size_t i = length; i < letters.size(); ++i) {
      repeats = repeats && letters[i] == letters[i - length];
    }
    if (repeats) return letters.substr(0, length);
  }
  return letters;
}

/// The window pattern of "layer_types" or, without it, of the layers for which is_local() is true.
template <typename IsLocal>
std::string pattern_of(const ForeignJson& config, int64_t num_layers, IsLocal&& is_local) {
  constexpr const char* kKey = "layer_types";
  std::string letters;
  if (!config.has(kKey)) {
    for (int64_t layer = 0; layer < num_layers; ++layer) letters += is_local(layer) ? 'L' : 'G';
    return shortest_pattern(letters);
  }
  for (const Json& type : config.list(kKey)) {
    const bool local = type == "sliding_attention";
    require(local || type == "full_attention",
            "{}: \"{}\" has {}, but only \"full_attention\" and \"sliding_attention\" are "
            "supported",
            config.where(), kKey, type.dump());
    letters += local ? 'L' : 'G';
  }
  require(std::ssize(letters) == num_layers, "{}: \"{}\" has {} items, but there are {} layers",
          config.where(), kKey, letters.size(), num_layers);
  return shortest_pattern(letters);
}

/// Sets the window, and the layers that have it.
void set_window(int64_t window, const std::string& pattern, ModelConfig& model) {
  const bool none = window == 0 || pattern.find('L') == std::string::npos;
  model.attention_window = none ? 0 : window;
  model.window_pattern = none ? preset(model.kind).window_pattern : pattern;
}

void read_window(const ForeignJson& config, WindowKeys keys, ModelConfig& model) {
  constexpr const char* kKey = "sliding_window";
  switch (keys) {
    case WindowKeys::none:
      return set_window(0, "", model);
    case WindowKeys::all_layers: {  // null: none
      const int64_t by_default = config.names(kKey) ? 0 : preset(model.kind).attention_window;
      return set_window(config.count({kKey}, by_default), "L", model);
    }
    case WindowKeys::some_layers: {
      if (!config.flag("use_sliding_window", false)) return set_window(0, "", model);
      const int64_t first = config.count({"max_window_layers"}, 28);
      const auto is_local = [=](int64_t layer) { return layer >= first; };
      return set_window(config.count({kKey}, 4096), pattern_of(config, model.num_layers, is_local),
                        model);
    }
  }
}

/// In classes without keys for biases, `transformers` ignores them.
void read_biases(const ForeignJson& config, const LlamaFormat& format, ModelConfig& model) {
  if (format.attention_bias && config.flag("attention_bias", false)) model.bias = Bias::attention;
  if (!format.mlp_bias || !config.flag("mlp_bias", false)) return;
  require(
      model.bias == Bias::attention,
      "{}: \"mlp_bias\" is true, but \"attention_bias\" is false: Tessera's model has biases in "
      "attention, or in all layers",
      config.where());
  model.bias = Bias::all;
}

void read_llama(const ForeignJson& config, ModelKind kind, bool tied, ModelConfig& model) {
  config.require_flag("is_causal", true, "a token of Tessera's decoders sees no later ones");
  const LlamaFormat format = llama_format(kind);
  model = preset(kind);
  read_biases(config, format, model);
  model.activation = activation_of(config, "hidden_act", "silu");
  model.vocab_size = config.count({"vocab_size"}, format.vocab_size);
  model.seq_length = config.count({"max_position_embeddings"}, format.seq_length);
  model.hidden_size = config.count({"hidden_size"}, 4096);
  model.num_layers = config.count({"num_hidden_layers"}, 32);
  model.num_heads = config.count({"num_attention_heads"}, 32);
  constexpr const char* kGroups = "num_key_value_heads";  // null: as many as heads
  model.num_kv_heads = config.count({kGroups}, config.names(kGroups) ? 0 : format.num_kv_heads);
  model.head_dim = config.count({"head_dim"}, format.head_dim);
  model.mlp_size = config.count({"intermediate_size"}, format.mlp_size);
  model.norm_eps = config.number("rms_norm_eps", 1e-6);
  model.rotary = rotary_of(config, model.seq_length);
  read_window(config, format.window, model);
  model.init_stddev = config.number("initializer_range", 0.02);
  model.attention_dropout = config.number("attention_dropout", 0.0);
  model.tie_embeddings = tied;
}

void read_bert(const ForeignJson& config, ModelKind kind, ModelConfig& model) {
  config.require_text("hidden_act", {"gelu", "gelu_python"});
  config.require_text("position_embedding_type", {"absolute"});
  config.require_flag("is_decoder", false, kNoSuchThing);
  model = preset(kind);
  model.vocab_size = config.count({"vocab_size"}, kind == ModelKind::bert ? 30522 : 50265);
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
          "{}: \"type_vocab_size\" is 0, but {} adds the embedding of a token's type",
          config.where(), architecture_of(kind).display_name);
}

/// Like BERT's, but positions are counted from the id of the padding token.
void read_roberta(const ForeignJson& config, ImportedConfig& result) {
  read_bert(config, ModelKind::roberta, result.model);
  result.padding_token = config.count({"pad_token_id"}, kRobertaPadding);
  const int64_t unused = unused_positions(result.padding_token);
  require(result.model.seq_length > unused,
          "{}: \"max_position_embeddings\" is {}, but RoBERTa does not use the first {}",
          config.where(), result.model.seq_length, unused);
  result.model.seq_length -= unused;
}

/// Reads the rotary positions of ModernBERT: "rope_parameters" has those of each type of layer, or
/// there are two keys for their bases.
void read_modernbert_rotary(const ForeignJson& config, ModelConfig& model) {
  const ModelConfig defaults = preset(ModelKind::modernbert);
  model.rotary.base = config.number("global_rope_theta", defaults.rotary.base);
  model.local_rotary_base = config.number("local_rope_theta", defaults.local_rotary_base);
  config.require_empty("rope_scaling", "scaled rotary positions of ModernBERT cannot be imported");
  constexpr const char* kKey = "rope_parameters";
  if (!config.has(kKey)) return;
  const ForeignJson types(config.object(kKey), fmt::format("{}: \"{}\"", config.where(), kKey));
  if (types.has("full_attention")) {
    const ForeignJson rope(types.object("full_attention"), types.where() + ": \"full_attention\"");
    model.rotary.base = rope.number("rope_theta", model.rotary.base);
    read_scaling(config, rope, model.seq_length, model.rotary);
  }
  if (types.has("sliding_attention")) {
    const ForeignJson rope(types.object("sliding_attention"),
                           types.where() + ": \"sliding_attention\"");
    model.local_rotary_base = rope.number("rope_theta", model.local_rotary_base);
    rope.require_text("rope_type", {"default"});
  }
}

void read_modernbert(const ForeignJson& config, ImportedConfig& result) {
  config.require_flag("norm_bias", false, kNoSuchThing);
  config.require_flag("attention_bias", false, kNoSuchThing);
  config.require_flag("mlp_bias", false, kNoSuchThing);
  config.require_flag("decoder_bias", true, "Tessera's ModernBERT has this bias");
  config.require_flag("classifier_bias", false, kNoSuchThing);
  config.require_text("classifier_activation", {"gelu"});
  ModelConfig& model = result.model;
  model = preset(ModelKind::modernbert);
  if (head_of(result.model_class) == Head::classification) {
    config.require_text("classifier_pooling", {"cls", "mean"});
    const bool mean = config.text("classifier_pooling", "cls") == "mean";
    model.classifier_pooling = mean ? Pooling::mean : Pooling::cls;
  }
  model.activation = activation_of(config, "hidden_activation", "gelu");
  model.vocab_size = config.count({"vocab_size"}, 50368);
  model.seq_length = config.count({"max_position_embeddings"}, 8192);
  model.hidden_size = config.count({"hidden_size"}, 768);
  model.num_layers = config.count({"num_hidden_layers"}, 22);
  model.num_heads = config.count({"num_attention_heads"}, 12);
  model.mlp_size = config.count({"intermediate_size"}, 1152);
  model.norm_eps = config.number("norm_eps", 1e-5);
  model.init_stddev = config.number("initializer_range", 0.02);
  model.dropout = config.number("embedding_dropout", 0.0);
  model.attention_dropout = config.number("attention_dropout", 0.0);
  const int64_t every = config.count({"global_attn_every_n_layers"}, 3);
  require(every > 0, "{}: \"global_attn_every_n_layers\" must not be 0", config.where());
  // Half of the window is on each side.
  set_window(config.count({"local_attention"}, 128) / 2 + 1,
             pattern_of(config, model.num_layers, [=](int64_t layer) { return layer % every > 0; }),
             model);
  read_modernbert_rotary(config, model);
}

/// "relu", or "gated-gelu", whose GELU is the approximation by tanh.
void read_feed_forward(const ForeignJson& config, ModelConfig& model) {
  constexpr const char* kKey = "feed_forward_proj";
  const std::string value = config.text(kKey, "relu"), gated = "gated-";
  model.gated_mlp = value.rfind(gated, 0) == 0;
  const std::string name = model.gated_mlp ? value.substr(gated.size()) : value;
  const bool is_tanh = model.gated_mlp && name == "gelu";
  model.activation = is_tanh ? Activation::gelu_tanh
                             : activation_named(config, kKey, name, model.gated_mlp ? gated : "");
  // Derived from it, but transformers reads them.
  config.require_flag("is_gated_act", model.gated_mlp, "\"feed_forward_proj\" says so");
  constexpr const char* kDerived = "dense_act_fn";
  require(!config.has(kDerived) || activation_of(config, kDerived, "") == model.activation,
          "{}: \"{}\" is {}, but \"{}\" is {}", config.where(), kDerived,
          quote(config.text(kDerived, "")), kKey, quote(value));
}

void read_t5(const ForeignJson& config, ImportedConfig& result) {
  config.require_flag("is_encoder_decoder", true, "a T5 has both");
  config.require_flag("is_decoder", false, kNoSuchThing);
  config.require_flag("scalable_attention", false, kNoSuchThing);
  ModelConfig& model = result.model;
  model = preset(ModelKind::t5);
  read_feed_forward(config, model);
  model.vocab_size = config.count({"vocab_size"}, 32128);
  model.seq_length = config.count({"n_positions"}, 512);  // no weight depends on it
  model.hidden_size = config.count({"d_model", "hidden_size"}, 512);
  model.num_layers = config.count({"num_layers", "num_hidden_layers"}, 6);
  model.num_decoder_layers = config.count({"num_decoder_layers"}, 0);
  model.num_heads = config.count({"num_heads", "num_attention_heads"}, 8);
  model.head_dim = config.count({"d_kv", "head_dim"}, 64);
  model.mlp_size = config.count({"d_ff"}, 2048);
  model.relative_buckets = config.count({"relative_attention_num_buckets"}, 32);
  model.relative_max_distance = config.count({"relative_attention_max_distance"}, 128);
  model.norm_eps = config.number("layer_norm_epsilon", 1e-6);
  model.dropout = model.attention_dropout = config.number("dropout_rate", 0.1);
  model.tie_embeddings = result.tied;
  result.tied_unless_stored = result.tied;
  model.scaled_logits = config.flag("scale_decoder_outputs", result.tied);
  if (!config.is_list("eos_token_id")) result.end_token = config.count({"eos_token_id"}, 1);
  result.decoder_start =
      config.count({"decoder_start_token_id"}, config.count({"pad_token_id"}, 0));
}

void read_vit(const ForeignJson& config, ModelConfig& model) {
  config.require_flag("qkv_bias", true, "all linear layers of Tessera's ViT have a bias");
  model = preset(ModelKind::vit);
  model.activation = activation_of(config, "hidden_act", "gelu");
  model.vocab_size = 1;
  model.image_size = config.count({"image_size"}, 224);
  model.patch_size = config.count({"patch_size"}, 16);
  model.num_channels = config.count({"num_channels"}, 3);
  model.hidden_size = config.count({"hidden_size"}, 768);
  model.num_layers = config.count({"num_hidden_layers"}, 12);
  model.num_heads = config.count({"num_attention_heads"}, 12);
  model.mlp_size = config.count({"intermediate_size"}, 3072);
  model.norm_eps = config.number("layer_norm_eps", 1e-12);
  model.init_stddev = config.number("initializer_range", 0.02);
  model.dropout = config.number("hidden_dropout_prob", 0.0);
  model.attention_dropout = config.number("attention_probs_dropout_prob", 0.0);
  require(model.patch_size > 0, "{}: \"patch_size\" must not be 0", config.where());
  model.seq_length = model.image_tokens();
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

/// Without "problem_type", `transformers` trains a class with one label as regression.
ProblemType read_problem_type(const ForeignJson& config, int64_t num_labels) {
  if (!config.has("problem_type")) {
    return num_labels == 1 ? ProblemType::regression : ProblemType::single_label_classification;
  }
  const std::string name = config.text("problem_type", "");
  const std::optional<ProblemType> type = problem_type_of(name);
  require(type.has_value(), "{}: \"problem_type\" is {}, but must be {}, {} or {}", config.where(),
          quote(name), problem_type_name(ProblemType::single_label_classification),
          problem_type_name(ProblemType::multi_label_classification),
          problem_type_name(ProblemType::regression));
  return *type;
}

void read_labels(const ForeignJson& config, ImportedConfig& result) {
  result.model.num_labels = config.count({"num_labels"}, 2);
  if (config.has("id2label")) {
    const Json& names = config.object("id2label");
    result.model.num_labels = std::ssize(names);
    std::vector<std::string> labels;
    for (size_t i = 0; i < names.size(); ++i) {
      const auto found = names.find(std::to_string(i));
      require(found != names.end() && found->is_string(),
              "{}: \"id2label\" has {} labels, but no name for {}", config.where(), names.size(),
              i);
      labels.push_back(found->get<std::string>());
    }
    take_labels(std::move(labels), result);
  }
  if (result.model.head == Head::token_classification) return;
  result.model.problem_type = read_problem_type(config, result.model.num_labels);
  if (result.model.problem_type == ProblemType::regression) result.labels.clear();
}

/// Notes what differs only in training.
void note_dropout(const ForeignJson& config, const char* key, ImportedConfig& result) {
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
  const ForeignJson config(json, where);
  ImportedConfig result;
  result.model_class = class_of(config, architecture);
  check_common(config, result.model_class);
  const ModelKind kind = kind_of(result.model_class);
  result.tied = config.flag("tie_word_embeddings", preset(kind).tie_embeddings);
  ModelConfig& model = result.model;
  switch (kind) {
    case ModelKind::gpt2:
      read_gpt2(config, model);
      note_dropout(config, "embd_pdrop", result);
      break;
    case ModelKind::llama:
    case ModelKind::mistral:
    case ModelKind::qwen2:
    case ModelKind::qwen3:
      read_llama(config, kind, result.tied, model);
      break;
    case ModelKind::bert:
      read_bert(config, kind, model);
      model.next_sentence = result.model_class == ModelClass::bert_pretraining;
      break;
    case ModelKind::roberta:
      read_roberta(config, result);
      break;
    case ModelKind::modernbert:
      read_modernbert(config, result);
      note_dropout(config, "mlp_dropout", result);
      break;
    case ModelKind::t5:
      read_t5(config, result);
      break;
    case ModelKind::vit:
      read_vit(config, model);
      break;
    case ModelKind::encoder_decoder:  // no class is of this kind
      break;
  }
  model.head = head_of(result.model_class);
  if (classifies(model.head)) {
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
