#include "launch/huggingface/export/export_config.h"

#include <algorithm>

#include "core/error.h"
#include "launch/huggingface/llama_format.h"
#include "launch/huggingface/tensor_names.h"
#include "models/architecture.h"

namespace tessera {
namespace {

Json gpt2_config(const ModelConfig& model) {
  return {{"vocab_size", model.vocab_size},
          {"n_positions", model.seq_length},
          {"n_embd", model.hidden_size},
          {"n_layer", model.num_layers},
          {"n_head", model.num_heads},
          {"n_inner", model.resolved_mlp_size()},
          {"activation_function", "gelu_new"},  // Activation::gelu_tanh
          {"resid_pdrop", model.dropout},
          {"embd_pdrop", model.dropout},
          {"attn_pdrop", model.attention_dropout},
          {"layer_norm_epsilon", model.norm_eps},
          {"initializer_range", model.init_stddev},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"reorder_and_upcast_attn", false},
          {"add_cross_attention", false}};
}

Json bert_config(const ModelConfig& model) {
  return {{"vocab_size", model.vocab_size},
          {"max_position_embeddings", model.seq_length},
          {"hidden_size", model.hidden_size},
          {"num_hidden_layers", model.num_layers},
          {"num_attention_heads", model.num_heads},
          {"intermediate_size", model.resolved_mlp_size()},
          {"type_vocab_size", model.token_types > 0 ? model.token_types : kZeroTokenTypes},
          {"hidden_act", "gelu"},  // Activation::gelu
          {"hidden_dropout_prob", model.dropout},
          {"attention_probs_dropout_prob", model.attention_dropout},
          {"layer_norm_eps", model.norm_eps},
          {"initializer_range", model.init_stddev},
          {"position_embedding_type", "absolute"},
          {"is_decoder", false},
          {"add_cross_attention", false}};
}

/// The names of `transformers`; "gelu_new" has the name that its decoders of today use.
std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_pytorch_tanh";
    case Activation::silu:
      return "silu";
    case Activation::relu:
      return "relu";
  }
  fail("{} is not an activation", static_cast<int>(activation));
}

/// "rope_parameters".
Json rope_json(const RotaryFrequencies& rotary) {
  Json rope = {{"rope_type", "default"}, {"rope_theta", rotary.base}};
  if (rotary.scaling == RotaryScaling::none) return rope;
  rope["factor"] = rotary.factor;
  if (rotary.scaling == RotaryScaling::linear) {
    rope["rope_type"] = "linear";
    return rope;
  }
  rope["original_max_position_embeddings"] = rotary.original_length;
  if (rotary.scaling == RotaryScaling::llama3) {
    rope["rope_type"] = "llama3";
    rope["low_freq_factor"] = rotary.low_freq_factor;
    rope["high_freq_factor"] = rotary.high_freq_factor;
    return rope;
  }
  rope["rope_type"] = "yarn";
  rope["beta_fast"] = rotary.beta_fast;
  rope["beta_slow"] = rotary.beta_slow;
  if (rotary.attention_factor > 0.0) rope["attention_factor"] = rotary.attention_factor;
  return rope;
}

Json layer_types(const ModelConfig& model) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    types.push_back(model.is_local(layer) ? "sliding_attention" : "full_attention");
  }
  return types;
}

Json modernbert_config(const ModelConfig& model) {
  const bool has_local_base = model.local_rotary_base > 0.0;
  return {{"vocab_size", model.vocab_size},
          {"max_position_embeddings", model.seq_length},
          {"hidden_size", model.hidden_size},
          {"num_hidden_layers", model.num_layers},
          {"num_attention_heads", model.num_heads},
          {"intermediate_size", model.resolved_mlp_size()},
          {"hidden_activation", name_of(model.activation)},
          {"norm_eps", model.norm_eps},
          {"norm_bias", false},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"decoder_bias", true},
          {"classifier_bias", false},
          {"classifier_pooling", model.classifier_pooling == Pooling::mean ? "mean" : "cls"},
          {"classifier_dropout", model.dropout},
          {"embedding_dropout", model.dropout},
          {"mlp_dropout", model.dropout},
          {"attention_dropout", model.attention_dropout},
          {"initializer_range", model.init_stddev},
          {"layer_types", layer_types(model)},
          {"local_attention", std::max<int64_t>(0, model.attention_window - 1) * 2},
          {"rope_parameters",
           {{"full_attention", rope_json(model.rotary)},
            {"sliding_attention",
             rope_json(has_local_base ? RotaryFrequencies{.base = model.local_rotary_base}
                                      : model.rotary)}}}};
}

Json llama_config(const ModelConfig& model) {
  Json config = {{"vocab_size", model.vocab_size},
                 {"max_position_embeddings", model.seq_length},
                 {"hidden_size", model.hidden_size},
                 {"num_hidden_layers", model.num_layers},
                 {"num_attention_heads", model.num_heads},
                 {"num_key_value_heads", model.resolved_kv_heads()},
                 {"intermediate_size", model.resolved_mlp_size()},
                 {"hidden_act", name_of(model.activation)},
                 {"attention_dropout", model.attention_dropout},
                 {"rms_norm_eps", model.norm_eps},
                 {"rope_theta", model.rotary.base},
                 {"initializer_range", model.init_stddev}};
  // transformers 5 reads rotary positions from here, earlier versions from "rope_scaling".
  config["rope_parameters"] = rope_json(model.rotary);
  if (model.rotary.scaling != RotaryScaling::none) config["rope_scaling"] = rope_json(model.rotary);
  const LlamaFormat format = llama_format(model.kind);
  if (format.has_head_dim) config["head_dim"] = model.resolved_head_dim();
  if (format.attention_bias) config["attention_bias"] = model.output_bias();
  if (format.mlp_bias) config["mlp_bias"] = model.linear_bias();
  const Json window = model.attention_window > 0 ? Json(model.attention_window) : Json(nullptr);
  switch (format.window) {
    case WindowKeys::none:
      break;
    case WindowKeys::all_layers:
      config["sliding_window"] = window;
      break;
    case WindowKeys::some_layers:
      config["use_sliding_window"] = model.attention_window > 0;
      config["layer_types"] = layer_types(model);
      if (model.attention_window > 0) config["sliding_window"] = window;
      break;
  }
  return config;
}

/// "relu", or "gated-gelu" for a gate with the approximation by tanh.
std::string feed_forward(const ModelConfig& model) {
  const bool tanh = model.activation == Activation::gelu_tanh;
  if (model.gated_mlp)
    return tanh ? "gated-gelu" : fmt::format("gated-{}", name_of(model.activation));
  return tanh ? "gelu_new" : std::string(name_of(model.activation));
}

Json t5_config(const ModelConfig& model) {
  return {{"vocab_size", model.vocab_size},
          {"n_positions", model.seq_length},
          {"d_model", model.hidden_size},
          {"d_kv", model.resolved_head_dim()},
          {"d_ff", model.resolved_mlp_size()},
          {"num_layers", model.num_layers},
          {"num_decoder_layers", model.resolved_decoder_layers()},
          {"num_heads", model.num_heads},
          {"relative_attention_num_buckets", model.relative_buckets},
          {"relative_attention_max_distance", model.relative_max_distance},
          {"feed_forward_proj", feed_forward(model)},
          {"dropout_rate", model.dropout},
          {"layer_norm_epsilon", model.norm_eps},
          {"initializer_factor", 1.0},
          {"is_encoder_decoder", true}};
}

Json vit_config(const ModelConfig& model) {
  return {{"image_size", model.image_size},
          {"patch_size", model.patch_size},
          {"num_channels", model.num_channels},
          {"hidden_size", model.hidden_size},
          {"num_hidden_layers", model.num_layers},
          {"num_attention_heads", model.num_heads},
          {"intermediate_size", model.resolved_mlp_size()},
          {"hidden_act", name_of(model.activation)},
          {"qkv_bias", true},
          {"hidden_dropout_prob", model.dropout},
          {"attention_probs_dropout_prob", model.attention_dropout},
          {"layer_norm_eps", model.norm_eps},
          {"initializer_range", model.init_stddev}};
}

void add_labels(const ModelConfig& model, const std::vector<std::string>& labels, Json& config) {
  Json names = Json::object(), ids = Json::object();
  for (int64_t i = 0; i < model.num_labels; ++i) {
    const auto place = static_cast<size_t>(i);
    const std::string name = place < labels.size() ? labels[place] : fmt::format("LABEL_{}", i);
    names[std::to_string(i)] = name;
    ids[name] = i;
  }
  config["id2label"] = names;
  config["label2id"] = ids;
  if (model.head == Head::token_classification) return;
  config["problem_type"] = problem_type_name(model.problem_type);
}

Json config_of(const ModelConfig& model) {
  switch (model.kind) {
    case ModelKind::gpt2:
      return gpt2_config(model);
    case ModelKind::llama:
    case ModelKind::mistral:
    case ModelKind::qwen2:
    case ModelKind::qwen3:
      return llama_config(model);
    case ModelKind::bert:
    case ModelKind::roberta:
      return bert_config(model);
    case ModelKind::modernbert:
      return modernbert_config(model);
    case ModelKind::t5:
      return t5_config(model);
    case ModelKind::vit:
      return vit_config(model);
    case ModelKind::encoder_decoder:
      break;
  }
  fail("{} has no counterpart in transformers", architecture_of(model.kind).display_name);
}

}  // namespace

Json export_config(const ModelConfig& model, ModelClass model_class, DType precision,
                   const Json& token_ids, const std::vector<std::string>& labels) {
  Json config = config_of(model);
  config["architectures"] = {to_string(model_class)};
  config["model_type"] = model_type(model_class);
  config["tie_word_embeddings"] = model.tie_embeddings;
  // Earlier versions of transformers call this torch_dtype.
  config["dtype"] = precision == DType::bf16 ? "bfloat16" : "float32";
  config["torch_dtype"] = config["dtype"];
  config.update(token_ids);
  if (model.kind == ModelKind::roberta) {
    config["max_position_embeddings"] =
        model.seq_length + unused_positions(token_ids.at("pad_token_id").get<int64_t>());
  }
  if (classifies(model.head)) add_labels(model, labels, config);
  return config;
}

}  // namespace tessera
