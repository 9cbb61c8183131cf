#include "launch/huggingface/import/import_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "launch/checkpoint/model_json.h"
#include "models/architecture.h"

namespace tessera {
namespace {

// A missing key has the default of transformers; null means none.
TEST(HuggingFaceConfig, DefaultsOfLlamaMatchTransformers) {
  const auto imported = [](const char* architecture, Json json) {
    json["architectures"] = {architecture};
    return import_config(json, "config.json", std::nullopt).model;
  };
  const ModelConfig llama = imported("LlamaForCausalLM", Json::object());
  EXPECT_EQ(llama.num_kv_heads, 32);
  EXPECT_EQ(llama.mlp_size, 11008);
  EXPECT_FALSE(llama.tie_embeddings);
  const ModelConfig mistral = imported("MistralForCausalLM", Json::object());
  EXPECT_EQ(mistral.num_kv_heads, 8);
  EXPECT_EQ(mistral.attention_window, 4096);
  const Json none = {{"sliding_window", nullptr}, {"num_key_value_heads", nullptr}};
  EXPECT_EQ(imported("MistralForCausalLM", none).attention_window, 0);
  EXPECT_EQ(imported("MistralForCausalLM", none).num_kv_heads, 32);
  EXPECT_EQ(imported("Qwen2ForCausalLM", Json::object()).bias, Bias::qkv);
  EXPECT_EQ(imported("Qwen3ForCausalLM", Json::object()).head_dim, 128);
  const ModelConfig windows = imported("Qwen3ForCausalLM", {{"use_sliding_window", true}});
  EXPECT_EQ(windows.window_pattern, std::string(28, 'G') + "LLLL");  // of 32 layers
  EXPECT_EQ(windows.attention_window, 4096);
  const Json scaled = {
      {"rope_theta", 5e5},
      {"rope_scaling",
       {{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", 2.0}, {"mscale_all_dim", 1.0}}}};
  const RotaryFrequencies rotary = imported("LlamaForCausalLM", scaled).rotary;
  EXPECT_EQ(rotary.base, 5e5);
  EXPECT_EQ(rotary.original_length, 2048);
  EXPECT_NEAR(rotary.attention_factor, (0.2 * std::log(4.0) + 1) / (0.1 * std::log(4.0) + 1),
              1e-12);
}

TEST(HuggingFaceConfig, DefaultsOfEncodersMatchTransformers) {
  const auto imported = [](const char* architecture, Json json) {
    json["architectures"] = {architecture};
    return import_config(json, "config.json", std::nullopt).model;
  };
  ModelConfig modern = imported("ModernBertForMaskedLM", Json::object());
  EXPECT_EQ(modern.window_pattern, "GLL");
  EXPECT_EQ(modern.attention_window, 65);
  EXPECT_EQ(modern.rotary.base, 160000.0);
  EXPECT_EQ(modern.local_rotary_base, 10000.0);
  EXPECT_EQ(modern.vocab_size, 50368);
  modern = imported("ModernBertForMaskedLM",
                    {{"global_attn_every_n_layers", 2}, {"local_rope_theta", 500.0}});
  EXPECT_EQ(modern.window_pattern, "GL");
  EXPECT_EQ(modern.local_rotary_base, 500.0);
  const ModelConfig roberta =
      imported("RobertaForMaskedLM", {{"max_position_embeddings", 514}, {"type_vocab_size", 1}});
  EXPECT_EQ(roberta.seq_length, 512);
  EXPECT_EQ(roberta.token_types, 1);
}

/// The config.json of a published model, without keys that do not matter to any model, and the
/// members of ModelConfig that differ from the preset's.
struct PublishedConfig {
  const char* name;
  const char* json;
  std::function<void(ModelConfig&)> expect;
};

void sizes(ModelConfig& model, int64_t vocab, int64_t length, int64_t width, int64_t layers,
           int64_t heads, int64_t groups, int64_t mlp) {
  model.vocab_size = vocab;
  model.seq_length = length;
  model.hidden_size = width;
  model.num_layers = layers;
  model.num_heads = heads;
  model.num_kv_heads = groups;
  model.head_dim = width / heads;
  model.mlp_size = mlp;
}

const PublishedConfig kPublishedConfigs[] = {
    {"T5", R"({"architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64,
       "d_model": 512, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
       "initializer_factor": 1.0, "is_encoder_decoder": true, "layer_norm_epsilon": 1e-06,
       "model_type": "t5", "n_positions": 512, "num_heads": 8, "num_layers": 6,
       "output_past": true, "pad_token_id": 0, "relative_attention_num_buckets": 32,
       "task_specific_params": {"summarization": {"early_stopping": true, "max_length": 200}},
       "vocab_size": 32128})",
     [](ModelConfig& model) {
       sizes(model, 32128, 512, 512, 6, 8, 8, 2048);
       model.dropout = model.attention_dropout = 0.1;
     }},
    {"T5 v1.1", R"({"architectures": ["T5ForConditionalGeneration"], "d_ff": 1024, "d_kv": 64,
       "d_model": 512, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
       "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0, "is_encoder_decoder": true,
       "layer_norm_epsilon": 1e-06, "model_type": "t5", "num_decoder_layers": 8, "num_heads": 6,
       "num_layers": 8, "output_past": true, "pad_token_id": 0,
       "relative_attention_num_buckets": 32, "tie_word_embeddings": false, "use_cache": true,
       "vocab_size": 32128})",
     [](ModelConfig& model) {
       sizes(model, 32128, 512, 512, 8, 6, 6, 1024);
       model.head_dim = 64;
       model.num_decoder_layers = 8;
       model.gated_mlp = true;
       model.activation = Activation::gelu_tanh;
       model.tie_embeddings = model.scaled_logits = false;
       model.dropout = model.attention_dropout = 0.1;
     }},
    {"Llama 2", R"({"_name_or_path": "x", "architectures": ["LlamaForCausalLM"], "bos_token_id": 1,
       "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
       "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama",
       "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
       "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
       "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.31.0",
       "use_cache": true, "vocab_size": 32000})",
     [](ModelConfig& model) {
       sizes(model, 32000, 4096, 4096, 32, 32, 32, 11008);
       model.norm_eps = 1e-5;
     }},
    {"first Llama, without groups", R"({"architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
       "hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 2048,
       "max_sequence_length": 2048, "model_type": "llama", "num_attention_heads": 32,
       "num_hidden_layers": 32, "pad_token_id": 0, "rms_norm_eps": 1e-06, "vocab_size": 32000})",
     [](ModelConfig& model) { sizes(model, 32000, 2048, 4096, 32, 32, 32, 11008); }},
    {"Llama 3.2, tied and scaled", R"({"architectures": ["LlamaForCausalLM"],
       "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000,
       "eos_token_id": [128001, 128008], "head_dim": 64, "hidden_act": "silu",
       "hidden_size": 2048, "intermediate_size": 8192, "max_position_embeddings": 131072,
       "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
       "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
       "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
       "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
       "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
       "use_cache": true, "vocab_size": 128256})",
     [](ModelConfig& model) {
       sizes(model, 128256, 131072, 2048, 16, 32, 8, 8192);
       model.norm_eps = 1e-5;
       model.tie_embeddings = true;
       model.rotary.base = 5e5;
       model.rotary.scaling = RotaryScaling::llama3;
       model.rotary.factor = 32.0;
       model.rotary.original_length = 8192;
     }},
    {"Llama of transformers 5", R"({"architectures": ["LlamaForCausalLM"], "attention_bias": true,
       "mlp_bias": true, "dtype": "bfloat16", "head_dim": null, "hidden_size": 64,
       "intermediate_size": 128, "max_position_embeddings": 256, "model_type": "llama",
       "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
       "rms_norm_eps": 1e-06, "rope_parameters": {"rope_theta": 20000.0, "rope_type": "linear",
       "factor": 2.0}, "vocab_size": 500})",
     [](ModelConfig& model) {
       sizes(model, 500, 256, 64, 2, 4, 2, 128);
       model.bias = Bias::all;
       model.rotary.base = 20000.0;
       model.rotary.scaling = RotaryScaling::linear;
       model.rotary.factor = 2.0;
     }},
    {"scaled in the oldest form", R"({"architectures": ["LlamaForCausalLM"],
       "attention_bias": true, "hidden_size": 64, "intermediate_size": 128,
       "max_position_embeddings": 256, "model_type": "llama", "num_attention_heads": 4,
       "num_hidden_layers": 2, "rope_scaling": {"type": "linear", "factor": 4.0},
       "vocab_size": 500})",
     [](ModelConfig& model) {
       sizes(model, 500, 256, 64, 2, 4, 4, 128);
       model.bias = Bias::attention;
       model.rotary.scaling = RotaryScaling::linear;
       model.rotary.factor = 4.0;
     }},
    {"Mistral 0.1", R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1,
       "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
       "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32,
       "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
       "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false,
       "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 32000})",
     [](ModelConfig& model) {
       sizes(model, 32000, 32768, 4096, 32, 32, 8, 14336);
       model.norm_eps = 1e-5;
     }},
    {"Mistral Nemo, without a window", R"({"architectures": ["MistralForCausalLM"],
       "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120,
       "intermediate_size": 14336, "max_position_embeddings": 1024000, "model_type": "mistral",
       "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
       "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null,
       "vocab_size": 131072})",
     [](ModelConfig& model) {
       sizes(model, 131072, 1024000, 5120, 40, 32, 8, 14336);
       model.head_dim = 128;
       model.norm_eps = 1e-5;
       model.rotary.base = 1e6;
       model.attention_window = 0;
     }},
    {"Qwen2.5, with a window that is off", R"({"architectures": ["Qwen2ForCausalLM"],
       "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 896,
       "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24,
       "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24,
       "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
       "sliding_window": 32768, "tie_word_embeddings": true, "use_mrope": false,
       "use_sliding_window": false, "vocab_size": 151936})",
     [](ModelConfig& model) {
       sizes(model, 151936, 32768, 896, 24, 14, 2, 4864);
       model.rotary.base = 1e6;
       model.tie_embeddings = true;
     }},
    {"Qwen2, with a window in the last layers", R"({"architectures": ["Qwen2ForCausalLM"],
       "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 256,
       "max_window_layers": 3, "model_type": "qwen2", "num_attention_heads": 4,
       "num_hidden_layers": 4, "num_key_value_heads": 4, "rope_scaling": {"type": "yarn",
       "factor": 4.0, "original_max_position_embeddings": 64}, "sliding_window": 16,
       "use_sliding_window": true, "vocab_size": 500})",
     [](ModelConfig& model) {
       sizes(model, 500, 256, 64, 4, 4, 4, 128);
       model.attention_window = 16;
       model.window_pattern = "GGGL";
       model.rotary.scaling = RotaryScaling::yarn;
       model.rotary.factor = 4.0;
       model.rotary.original_length = 64;
     }},
    {"Qwen3", R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "head_dim": 128,
       "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072,
       "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
       "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
       "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
       "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936})",
     [](ModelConfig& model) {
       sizes(model, 151936, 40960, 1024, 28, 16, 8, 3072);
       model.head_dim = 128;
       model.rotary.base = 1e6;
       model.tie_embeddings = true;
     }},
    {"ModernBERT", R"({"architectures": ["ModernBertForMaskedLM"], "attention_bias": false,
       "attention_dropout": 0.0, "classifier_activation": "gelu", "classifier_bias": false,
       "classifier_dropout": 0.0, "classifier_pooling": "mean", "cls_token_id": 50281,
       "decoder_bias": true, "deterministic_flash_attn": false, "embedding_dropout": 0.0,
       "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
       "gradient_checkpointing": false, "hidden_activation": "gelu", "hidden_size": 768,
       "initializer_cutoff_factor": 2.0, "initializer_range": 0.02, "intermediate_size": 1152,
       "layer_norm_eps": 1e-05, "local_attention": 128, "local_rope_theta": 10000.0,
       "max_position_embeddings": 8192, "mlp_bias": false, "mlp_dropout": 0.0,
       "model_type": "modernbert", "norm_bias": false, "norm_eps": 1e-05,
       "num_attention_heads": 12, "num_hidden_layers": 22, "pad_token_id": 50283,
       "position_embedding_type": "absolute", "sparse_prediction": false,
       "torch_dtype": "float32", "vocab_size": 50368})",
     [](ModelConfig& model) { sizes(model, 50368, 8192, 768, 22, 12, 12, 1152); }},
    {"RoBERTa", R"({"architectures": ["RobertaForMaskedLM"], "attention_probs_dropout_prob": 0.1,
       "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
       "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
       "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "model_type": "roberta",
       "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 1,
       "type_vocab_size": 1, "vocab_size": 50265})",
     [](ModelConfig& model) {
       sizes(model, 50265, 512, 768, 12, 12, 12, 3072);
       model.token_types = 1;
       model.dropout = model.attention_dropout = 0.1;
     }},
    {"BERT", R"({"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
       "gradient_checkpointing": false, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
       "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
       "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
       "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
       "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0",
       "type_vocab_size": 2, "use_cache": true, "vocab_size": 30522})",
     [](ModelConfig& model) {
       sizes(model, 30522, 512, 768, 12, 12, 12, 3072);
       model.token_types = 2;
       model.dropout = model.attention_dropout = 0.1;
     }},
    {"GPT-2", R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
       "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256,
       "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
       "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
       "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
       "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
       "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
       "vocab_size": 50257})",
     [](ModelConfig& model) {
       sizes(model, 50257, 1024, 768, 12, 12, 12, 3072);
       model.dropout = model.attention_dropout = 0.1;
     }},
};

TEST(HuggingFaceConfig, DefaultsOfT5MatchTransformers) {
  const auto imported = [](Json json) {
    json["architectures"] = {"T5ForConditionalGeneration"};
    return import_config(json, "config.json", std::nullopt).model;
  };
  ModelConfig expected = preset(ModelKind::t5);
  sizes(expected, 32128, 512, 512, 6, 8, 8, 2048);
  expected.dropout = expected.attention_dropout = 0.1;
  EXPECT_EQ(imported(Json::object()), expected);
  EXPECT_EQ(imported({{"feed_forward_proj", "gated-silu"}}).activation, Activation::silu);
  EXPECT_EQ(imported({{"feed_forward_proj", "gelu"}}).activation, Activation::gelu);
  EXPECT_FALSE(imported({{"tie_word_embeddings", false}}).scaled_logits);
  EXPECT_EQ(imported({{"num_decoder_layers", nullptr}}).num_decoder_layers, 0);
}

TEST(HuggingFaceConfig, ReadsPublishedOnes) {
  for (const PublishedConfig& published : kPublishedConfigs) {
    SCOPED_TRACE(published.name);
    const ImportedConfig imported =
        import_config(parse_json(published.json, "config.json"), "config.json", std::nullopt);
    ModelConfig expected = preset(imported.model.kind);
    published.expect(expected);
    EXPECT_EQ(imported.tied, expected.tie_embeddings);
    EXPECT_EQ(architecture_json(imported.model), architecture_json(expected));
    EXPECT_EQ(imported.model.dropout, expected.dropout);
    EXPECT_EQ(imported.model.attention_dropout, expected.attention_dropout);
  }
}

}  // namespace
}  // namespace tessera
