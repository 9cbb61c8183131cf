#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "launch/data/training_data.h"
#include "launch/huggingface/import/import_config.h"
#include "launch/train/start/run_lock.h"
#include "launch/train/start/start.h"
#include "tests/launch/huggingface/fixture.h"

namespace tessera {
namespace {

using namespace testing_interop;

/// Imports folders that differ from an export in one detail.
class HuggingFaceImport : public HuggingFaceFolder {
 protected:
  /// The folder of a model's export, a new one for each call.
  fs::path folder_of(const ModelConfig& model) {
    const std::string run = fmt::format("run{}", ++folders_);
    return export_run(save_model(run, model), run + "_out");
  }

  /// A folder like that, with its tensors changed by `change`.
  template <typename Change>
  fs::path changed(const ModelConfig& model, Change&& change) {
    const fs::path folder = folder_of(model);
    FileTensors tensors = read_tensors(folder / "model.safetensors");
    change(tensors);
    write_tensors(folder / "model.safetensors", tensors);
    return folder;
  }

  /// The weights after importing a folder.
  FileTensors weights_from(const fs::path& folder) {
    return weights_of(import_folder(folder, fmt::format("back{}", ++folders_)).checkpoint);
  }

  static void rename(FileTensors& tensors, const std::string& from, const std::string& to) {
    auto node = tensors.extract(from);
    ASSERT_FALSE(node.empty()) << from;
    node.key() = to;
    tensors.insert(std::move(node));
  }

  /// Renames every tensor.
  template <typename NewName>
  static void rename_all(FileTensors& tensors, NewName&& new_name) {
    FileTensors renamed;
    for (const auto& [name, tensor] : tensors) renamed[new_name(name)] = tensor;
    tensors = renamed;
  }

  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  }

  int folders_ = 0;
};

TEST_F(HuggingFaceImport, AcceptsAlternativeTensorNames) {
  const FileTensors gpt = weights_from(folder_of(small_gpt()));
  const FileTensors bert = weights_from(folder_of(small_pretraining()));
  // A base model's names, with the buffers of earlier versions.
  EXPECT_EQ(weights_from(changed(small_gpt(),
                                 [](FileTensors& tensors) {
                                   rename_all(tensors, [](const std::string& name) {
                                     return replaced(name, "transformer.", "");
                                   });
                                   tensors["h.0.attn.bias"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
                                   tensors["h.1.attn.masked_bias"] = {{}, {-10000.0f}};
                                 })),
            gpt);
  EXPECT_EQ(weights_from(changed(small_gpt(),
                                 [](FileTensors& tensors) {
                                   tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
                                 })),
            gpt);
  EXPECT_EQ(weights_from(changed(
                small_pretraining(),
                [](FileTensors& tensors) {
                  rename_all(tensors, [](const std::string& name) {
                    return replaced(replaced(replaced(name, "LayerNorm.weight", "LayerNorm.gamma"),
                                             "LayerNorm.bias", "LayerNorm.beta"),
                                    "cls.predictions.bias", "cls.predictions.decoder.bias");
                  });
                  tensors["bert.embeddings.position_ids"] = {{1, 10}, std::vector<float>(10)};
                })),
            bert);
  EXPECT_EQ(weights_from(changed(small_pretraining(),
                                 [](FileTensors& tensors) {
                                   tensors["cls.predictions.decoder.bias"] =
                                       tensors["cls.predictions.bias"];
                                   tensors["cls.predictions.decoder.weight"] =
                                       tensors["bert.embeddings.word_embeddings.weight"];
                                 })),
            bert);
}

TEST_F(HuggingFaceImport, OmitsHeadsMissingFromClass) {
  const fs::path folder = folder_of(small_pretraining());
  set_config(folder, "architectures", {"BertForMaskedLM"});
  const ImportReport report = import_folder(folder, "masked");
  EXPECT_EQ(report.left_out,
            (std::vector<std::string>{"cls.seq_relationship.bias", "cls.seq_relationship.weight",
                                      "bert.pooler.dense.bias", "bert.pooler.dense.weight"}));
  EXPECT_FALSE(report.model.next_sentence);
  // They are imported on request.
  ImportOptions options{folder, folder_ / "pairs", wordpiece(), "BertForPreTraining"};
  EXPECT_TRUE(import_model(options).model.next_sentence);
  options.architecture = "BertForSequenceClassification";
  options.to = folder_ / "labels";
  expect_error([&] { import_model(options); }, {"missing from the files", "classifier.weight"});
  options.architecture = "BertModel";  // without a head, for embeddings
  options.to = folder_ / "embeddings";
  const ImportReport embeddings = import_model(options);
  EXPECT_EQ(embeddings.model.head, Head::embedding);
  EXPECT_EQ(embeddings.model.embedding_pooling, Pooling::mean);
  EXPECT_THAT(embeddings.notes, testing::Contains(testing::HasSubstr("no modules.json")));
  options.architecture = "MPNetModel";
  expect_error([&] { import_model(options); },
               {"--architecture: the architecture \"MPNetModel\" cannot be imported"});
}

TEST_F(HuggingFaceImport, NamesMissingAndUnexpectedTensors) {
  const ModelConfig model = small_masked_lm();
  expect_refused(
      changed(model,
              [](FileTensors& tensors) {
                tensors.erase("cls.predictions.bias");
                tensors.erase("bert.encoder.layer.1.attention.self.value.weight");
              }),
      {"2 of the model's tensors are missing from the files:",
       "\n  bert.encoder.layer.1.attention.self.value.weight", "\n  cls.predictions.bias"});
  expect_refused(changed(model,
                         [](FileTensors& tensors) {
                           tensors["bert.adapter"] = {{1}, {1.0f}};
                         }),
                 {"1 of the files' tensors is not in the model:\n  \"bert.adapter\""});
  expect_refused(changed(small_gpt(),
                         [](FileTensors& tensors) {
                           tensors["v_head.weight"] = {{1}, {1.0f}};
                         }),
                 {"\"v_head.weight\""});
  expect_refused(changed(model,
                         [](FileTensors& tensors) {
                           auto& table = tensors["bert.embeddings.position_embeddings.weight"];
                           table = {{5, 12}, std::vector<float>(60)};
                         }),
                 {"\"bert.embeddings.position_embeddings.weight\" is (5, 12), but must be "
                  "(10, 12)"});
  expect_refused(changed(model,
                         [](FileTensors& tensors) {
                           tensors["embeddings.LayerNorm.gamma"] = {{1}, {1.0f}};
                         }),
                 {"\"bert.embeddings.LayerNorm.weight\"", "are names of the same tensor"});
  // A base model has no heads.
  const fs::path base = changed(model, [](FileTensors& tensors) {
    for (auto it = tensors.begin(); it != tensors.end();) {
      it = it->first.rfind("cls.", 0) == 0 ? tensors.erase(it) : std::next(it);
    }
  });
  expect_refused(base, {"5 of the model's tensors are missing", "cls.predictions.bias"});
  set_config(base, "architectures", {"MPNetModel"});
  expect_refused(base, {"the architecture \"MPNetModel\" cannot be imported", "BertForMaskedLM"});
  // The message stays short even for a config with thousands of layers.
  const fs::path deep = folder_of(model);
  set_config(deep, "num_hidden_layers", 10'000);
  expect_refused(deep, {"bert.encoder.layer.2.", "and 159948 more"});
}

TEST_F(HuggingFaceImport, RejectsUntiedHeads) {
  const auto other_head = [](FileTensors& tensors) {
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
    tensors["lm_head.weight"].values.back() += 1.0f;
  };
  expect_refused(changed(small_gpt(), other_head),
                 {"\"lm_head.weight\" and \"transformer.wte.weight\" differ"});
  const fs::path absent = folder_of(small_gpt());
  set_config(absent, "tie_word_embeddings", false);
  expect_refused(absent, {"\"tie_word_embeddings\" is false", "lm_head.weight"});
  const fs::path equal = changed(small_gpt(), [](FileTensors& tensors) {
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
  });
  set_config(equal, "tie_word_embeddings", false);
  EXPECT_NO_THROW(import_folder(equal, "equal"));
  expect_refused(
      changed(small_masked_lm(),
              [](FileTensors& tensors) {
                tensors["cls.predictions.decoder.bias"] = {{56}, std::vector<float>(56, 7.0f)};
              }),
      {"\"cls.predictions.decoder.bias\" and \"cls.predictions.bias\" differ"});
}

TEST_F(HuggingFaceImport, RejectsNonFiniteWeights) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    expect_refused(changed(small_gpt(),
                           [&](FileTensors& tensors) {
                             tensors["transformer.h.1.mlp.c_fc.weight"].values[7] = bad;
                           }),
                   {"the tensor \"transformer.h.1.mlp.c_fc.weight\" has an element that is NaN"});
  }
}

TEST_F(HuggingFaceImport, RejectsUnsupportedOptions) {
  const auto refused = [&](const ModelConfig& model, const char* key, const Json& value,
                           std::initializer_list<const char*> facts) {
    const fs::path folder = folder_of(model);
    set_config(folder, key, value);
    expect_refused(folder, facts);
  };
  const ModelConfig gpt = small_gpt(), bert = small_masked_lm(), labels = small_classifier();
  refused(gpt, "scale_attn_by_inverse_layer_idx", true,
          {"\"scale_attn_by_inverse_layer_idx\" is true, but must be false"});
  refused(gpt, "reorder_and_upcast_attn", true, {"\"reorder_and_upcast_attn\" is true"});
  refused(gpt, "scale_attn_weights", false, {"\"scale_attn_weights\" is false"});
  refused(gpt, "add_cross_attention", true, {"\"add_cross_attention\" is true"});
  refused(gpt, "activation_function", "relu",
          {"\"activation_function\" is \"relu\", but must be \"gelu_new\""});
  refused(gpt, "quantization_config", {{"bits", 4}}, {"\"quantization_config\" is set"});
  refused(gpt, "model_type", "llama", {"\"model_type\" is \"llama\""});
  refused(gpt, "architectures", {"MambaForCausalLM"},
          {"the architecture \"MambaForCausalLM\" cannot be imported", "GPT2LMHeadModel"});
  refused(gpt, "architectures", Json::array(), {"must be one name", "--architecture"});
  refused(gpt, "architectures", nullptr, {"has no \"architectures\"", "--architecture"});
  refused(gpt, "n_layer", -1, {"\"n_layer\" must be an integer from 0"});
  refused(gpt, "n_layer", 0, {"config.json describes a model that Tessera does not support"});
  refused(gpt, "n_head", 0, {"cannot be 0"});
  refused(gpt, "n_head", 5,
          {"config.json describes a model that Tessera does not support: "
           "model.hidden_size is 12, but model.num_heads is 5"});
  refused(gpt, "tie_word_embeddings", "false",
          {"config.json: \"tie_word_embeddings\" must be true or false, but is a string"});
  refused(gpt, "resid_pdrop", 1.5, {"a dropout must be"});
  refused(gpt, "layer_norm_epsilon", "small", {"\"layer_norm_epsilon\" must be a number"});
  refused(gpt, "vocab_size", int64_t{1} << 40, {"vocab_size"});
  const ModelConfig llama = small_llama();
  refused(llama, "attention_bias", true, {"q_proj.bias"});
  refused(llama, "mlp_bias", true, {"\"mlp_bias\" is true, but \"attention_bias\" is false"});
  refused(llama, "hidden_act", "mish",
          {"\"hidden_act\" is \"mish\", but must be one of silu, swish, gelu"});
  refused(llama, "rope_parameters", {{"rope_type", "longrope"}},
          {"\"rope_parameters\": the type is \"longrope\", but only default, linear, llama3 and"});
  refused(llama, "rope_scaling", {{"type", "linear"}, {"factor", 0.5}},
          {"\"rope_scaling\": \"factor\" must be a number of at least 1"});
  refused(llama, "rope_parameters", {{"partial_rotary_factor", 0.5}},
          {"\"partial_rotary_factor\" must be 1"});
  refused(llama, "num_key_value_heads", 4, {"model.num_kv_heads is 4, but model.num_heads is 6"});
  refused(llama, "tie_word_embeddings", true, {"lm_head.weight"});
  const ModelConfig qwen = small_llama(ModelKind::qwen3);
  refused(qwen, "layer_types", {"full_attention", "chunked_attention"},
          {"\"layer_types\" has \"chunked_attention\""});
  refused(qwen, "layer_types", {"full_attention"},
          {"\"layer_types\" has 1 items, but there are 2"});
  const ModelConfig modern = small_encoder(ModelKind::modernbert);
  refused(modern, "norm_bias", true, {"\"norm_bias\" is true, but must be false"});
  refused(modern, "decoder_bias", false, {"\"decoder_bias\" is false"});
  refused(small_encoder(ModelKind::modernbert, Head::classification), "classifier_pooling", "max",
          {"\"classifier_pooling\" is \"max\", but must be \"cls\" or \"mean\""});
  refused(small_encoder(ModelKind::roberta), "pad_token_id", 40,
          {"\"max_position_embeddings\" is 11, but RoBERTa does not use the first 41"});
  refused(bert, "hidden_act", "gelu_new", {"\"hidden_act\" is \"gelu_new\""});
  refused(bert, "position_embedding_type", "relative_key",
          {"\"position_embedding_type\" is \"relative_key\", but must be \"absolute\""});
  refused(bert, "is_decoder", true, {"\"is_decoder\" is true"});
  refused(bert, "type_vocab_size", 0, {"\"type_vocab_size\" is 0"});
  refused(bert, "pruned_heads", {{"0", {1}}}, {"\"pruned_heads\" is set"});
  refused(labels, "problem_type", "ranking",
          {"\"problem_type\" is \"ranking\"", "multi_label_classification or regression"});
  refused(labels, "problem_type", "regression", {"model.num_labels is 3"});
  refused(labels, "id2label", {{"0", "a"}, {"2", "b"}}, {"\"id2label\" has 2 labels"});
}

TEST_F(HuggingFaceImport, ReadsModulesOfSentenceTransformers) {
  const ModelConfig model = small_embeddings(ModelKind::bert, Pooling::cls);
  const fs::path folder = folder_of(model);
  const auto write = [&](const char* name, const Json& json) {
    std::ofstream(folder / name) << json.dump();
  };
  const auto module_of = [](const char* type, const char* path) {
    return Json{{"type", std::string("sentence_transformers.models.") + type}, {"path", path}};
  };
  const Json transformer = module_of("Transformer", "");
  const Json pooling = module_of("Pooling", "1_Pooling");
  const auto refused = [&](const Json& modules, std::initializer_list<const char*> messages) {
    write("modules.json", modules);
    expect_refused(folder, messages);
  };
  EXPECT_EQ(import_folder(folder, "cls").model.embedding_pooling, Pooling::cls);
  refused(Json::array({transformer}), {"modules.json", "no Pooling"});
  refused({transformer, pooling, module_of("Dense", "2_Dense")}, {"module 2 is \"Dense\""});
  refused({pooling, transformer}, {"module 0 is \"Pooling\""});
  refused({transformer, module_of("Pooling", "../x")}, {"\"../x\" is not a folder within"});
  refused(Json::array({module_of("Transformer", "0_Transformer")}),
          {"\"0_Transformer\": import that folder"});
  refused(Json::object(), {"must be a list of modules"});
  // Without Normalize, and in the words of later versions.
  write("modules.json", {transformer, pooling});
  write("1_Pooling/config.json", {{"pooling_mode", "mean"}});
  const ImportReport report = import_folder(folder, "mean");
  EXPECT_EQ(report.model.embedding_pooling, Pooling::mean);
  EXPECT_THAT(report.notes, testing::Contains(testing::HasSubstr("length 1")));
  write("1_Pooling/config.json", {{"pooling_mode_max_tokens", true}});
  expect_refused(folder, {"1_Pooling/config.json", "\"pooling_mode_max_tokens\" is set"});
  write("1_Pooling/config.json",
        {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}});
  expect_refused(folder, {"both \"pooling_mode_cls_token\" and", "one pooling"});
  write("1_Pooling/config.json", Json::object());
  expect_refused(folder, {"no pooling is set"});
}

TEST_F(HuggingFaceImport, DefaultsMatchTransformers) {
  const fs::path folder = folder_of(small_gpt());
  Json config = config_of(folder);
  for (const char* key : {"activation_function", "tie_word_embeddings", "model_type", "resid_pdrop",
                          "layer_norm_epsilon", "scale_attn_weights", "initializer_range"}) {
    config.erase(key);
  }
  config["embd_pdrop"] = 0.3;
  write_file(folder / "config.json", config.dump());
  const ImportReport report = import_folder(folder, "back");
  EXPECT_EQ(report.model.norm_eps, 1e-5);
  EXPECT_EQ(report.model.dropout, 0.1);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("\"embd_pdrop\" is 0.3"), std::string::npos);
}

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

TEST_F(HuggingFaceImport, RejectsMissingAndEscapingFiles) {
  const fs::path folder = export_run(save_model("run", small_gpt()), "out", 3000);
  const fs::path index = folder / "model.safetensors.index.json";
  const std::string good = read_file(index);
  const auto refused = [&](const std::string& from, const std::string& to,
                           std::initializer_list<const char*> facts) {
    write_file(index, replaced(good, from, to));
    expect_refused(folder, facts);
    write_file(index, good);
  };
  const std::string first = "model-00001-of-";
  refused(first, "../" + first, {"a file's name must end in .safetensors and be made of"});
  refused(first, "/etc/" + first, {"a file's name must"});
  refused("\"" + first, "\"model-00009-of-", {"cannot be opened"});
  refused("transformer.ln_f.bias", "transformer.ln_f.bis", {"\"transformer.ln_f.bis\" is in"});
  refused("weight_map", "weights", {"has no \"weight_map\""});
  // One of the files is missing, empty, cut off or not named by the index.
  const fs::path last = [&] {
    fs::path found;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const bool is_weights = entry.path().extension() == ".safetensors";
      if (is_weights && entry.path() > found) found = entry.path();
    }
    return found;
  }();
  const std::string bytes = read_file(last);
  fs::remove(last);
  expect_refused(folder, {last.filename().c_str(), "cannot be opened"});
  write_file(last, "");
  expect_refused(folder, {last.filename().c_str()});
  write_file(last, bytes.substr(0, bytes.size() - 3));
  expect_refused(folder, {last.filename().c_str()});
  write_file(last, bytes);
  Json shorter = Json::parse(good);
  for (auto item = shorter["weight_map"].begin(); item != shorter["weight_map"].end();) {
    item = *item == last.filename().string() ? shorter["weight_map"].erase(item) : std::next(item);
  }
  write_file(index, shorter.dump());
  expect_refused(folder, {"missing from the files"});
  write_file(index, std::string(100'000, '['));
  expect_refused(folder, {"nests JSON more than 32"});

  fs::remove(index);
  expect_refused(folder, {"has neither model.safetensors nor model.safetensors.index.json"});
  write_file(folder / "pytorch_model.bin", "pickle");
  expect_refused(folder, {"has pytorch_model.bin", "safe_serialization=True"});
  fs::remove(folder / "config.json");
  expect_refused(folder, {"config.json: cannot be opened"});
  expect_refused(folder_ / "nowhere", {"nowhere is not a folder"});
}

/// A safetensors file with this header and data.
std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return bytes_of<uint64_t>(header.size()) + header + data;
}

TEST_F(HuggingFaceImport, WidensFloatsAndRejectsOtherDTypes) {
  const fs::path folder = folder_of(small_gpt());
  const FileTensors tensors = read_tensors(folder / "model.safetensors");
  const auto written = [&](const std::string& dtype, const std::string& element, size_t cut = 0) {
    Json header;
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const size_t begin = data.size();
      for (int64_t i = 0; i < tensor.shape.numel(); ++i) data += element;
      if (name == "transformer.ln_f.bias") data.resize(data.size() - cut);
      header[name] = {{"dtype", dtype},
                      {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
                      {"data_offsets", {begin, data.size()}}};
    }
    write_file(folder / "model.safetensors", safetensors_bytes(header.dump(), data));
  };
  const auto expect_all = [&](float value) {
    for (const auto& [name, tensor] : weights_from(folder)) {
      for (const float element : tensor.values) ASSERT_EQ(element, value) << name;
    }
  };
  written("F16", bytes_of<uint16_t>(0x3555));
  expect_all(0.333251953125f);
  written("BF16", bytes_of<uint16_t>(0x3eab));
  expect_all(0.333984375f);
  written("F64", bytes_of(1.0 / 3.0));
  expect_all(1.0f / 3.0f);
  written("F64", bytes_of(1e300));
  expect_refused(folder, {"too large for fp32"});
  written("F16", bytes_of<uint16_t>(0x7c00));
  expect_refused(folder, {"NaN, infinite"});
  written("F16", bytes_of<uint16_t>(0x3555), 2);
  expect_refused(folder, {"\"transformer.ln_f.bias\": F16 (12) cannot be stored in 22 bytes"});
  // Rejected before any conversion, whatever their sizes.
  written("I8", "\x01", 1);
  expect_refused(folder, {"is \"I8\", but F32, F16, BF16 or F64 is needed"});
  written("I32", bytes_of<int32_t>(1));
  expect_refused(folder, {"is I32, but F32"});
}

TEST_F(HuggingFaceImport, AcceptsPaddedButNotTooSmallVocabulary) {
  ModelConfig model = small_gpt();
  model.vocab_size = test::kSmallVocabulary;
  const fs::path folder = folder_of(model);
  EXPECT_NO_THROW(import_folder(folder, "fits"));
  test::write_vocabulary(folder_ / "vocab.txt", test::kSmallVocabulary + 1);
  expect_refused(folder, {"has 54 tokens, but \"vocab_size\" in", "is 53"});
}

TEST_F(HuggingFaceImport, KeepsExistingCheckpoint) {
  const fs::path folder = folder_of(small_gpt());
  import_folder(folder, "run");
  expect_error([&] { import_folder(folder, "run"); }, {"holds", "step_00000000", "another folder"});
}

TEST_F(HuggingFaceImport, FailureNamesReasonAndLeavesNothing) {
  const fs::path folder = changed(small_gpt(), [&](FileTensors& tensors) {
    tensors["transformer.ln_f.bias"].values[7] = std::nanf("");
  });
  const auto message_to = [&](const std::string& run) {
    try {
      import_folder(folder, run);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message_to("new/run"),
            (folder / "model.safetensors").string() +
                ": the tensor \"transformer.ln_f.bias\" has an element that is NaN, infinite or "
                "too large for fp32");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  fs::create_directory(folder_ / "there");
  EXPECT_NE(message_to("there"), "");
  EXPECT_TRUE(fs::is_empty(folder_ / "there"));
}

TEST_F(HuggingFaceImport, ImportsWithoutTokenizer) {
  const fs::path folder = folder_of(small_masked_lm());
  fs::remove(folder / "tokenizer.json");
  fs::remove(folder / "vocab.txt");
  ImportOptions options;
  options.from = folder;
  options.to = folder_ / "back";
  expect_error([&] { import_model(options); }, {"has no tokenizer"});
  options.tokenizer = "none";
  options.special_tokens = {{"cls", 2}, {"sep", 3}, {"mask", 4}};
  const ImportReport report = import_model(options);
  EXPECT_EQ(to_string(report.identity), "none (ids 0 to 55)");
  const auto tokenizer = tokenizer_of(Checkpoint::open(report.checkpoint));
  EXPECT_EQ(tokenizer->special().mask, 4);
  EXPECT_EQ(tokenizer->special().padding, 0);  // config.json has it

  const fs::path again = export_run(options.to, "again");
  EXPECT_FALSE(fs::exists(again / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(again / "tokenizer_config.json"));
  ImportOptions back;
  back.from = again;
  back.to = folder_ / "third";
  back.tokenizer = "none";
  const ImportReport third = import_model(back);
  EXPECT_EQ(weights_of(third.checkpoint), weights_of(report.checkpoint));
  EXPECT_EQ(tokenizer_of(Checkpoint::open(third.checkpoint))->to_json(), tokenizer->to_json());

  options.to = folder_ / "other";
  options.tokenizer = wordpiece();
  expect_error([&] { import_model(options); },
               {"--special-token is for models without a tokenizer", "--tokenizer none"});
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

TEST_F(HuggingFaceImport, RejectsFolderOfActiveRun) {
  const fs::path folder = folder_of(small_gpt());
  fs::create_directory(folder_ / "run");
  const RunLock lock(folder_ / "run");
  expect_error([&] { import_folder(folder, "run"); }, {"is in use by another run"});
  EXPECT_TRUE(fs::is_empty(folder_ / "run"));
}

TEST_F(HuggingFaceImport, RunInFolderStartsAtStepZero) {
  test::write_small_data(folder_);
  RunConfig config = test::small_run(folder_, "fresh", test::SmallKind::bert_pairs);
  const std::string run = save_model("run", config.model);
  const ImportReport report = import_folder(export_run(run, "out"), "fresh");
  const auto world = make_self_communicator();
  const ParallelGroups groups = make_parallel_groups(*world, 1);
  Trainer trainer(config, groups, open_training_data(config));
  const auto quiet = [](const std::string&) {};
  EXPECT_EQ(start_or_resume(config, trainer, *world, quiet),
            "started with the weights of " + report.checkpoint.string());
  EXPECT_EQ(trainer.steps_done(), 0);
  trainer.step();
  trainer.save();
  // The next start resumes as usual, including the moments.
  Trainer again(config, groups, open_training_data(config));
  EXPECT_NE(start_or_resume(config, again, *world, quiet).find("(step 1, 8 samples seen)"),
            std::string::npos);

  // A trained checkpoint without its moments is rejected.
  RunConfig lost = config;
  lost.run.dir = run;
  Trainer third(lost, groups, open_training_data(lost));
  expect_error([&] { start_or_resume(lost, third, *world, quiet); },
               {"has no tensor \"embedding.word/exp_avg\""});
}

}  // namespace
}  // namespace tessera
