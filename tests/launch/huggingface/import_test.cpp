#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "launch/data/training_data.h"
#include "launch/huggingface/image_processor.h"
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

TEST_F(HuggingFaceImport, LeavesOutNamesOfWrappers) {
  for (const ModelConfig& model : {small_gpt(), small_llama(), small_masked_lm(), small_t5()}) {
    const FileTensors expected = weights_from(folder_of(model));
    for (const std::string prefix : {"module.", "_orig_mod.", "model.", "base_model.model.",
                                     "module._orig_mod.", "model.model."}) {
      const fs::path folder = changed(model, [&](FileTensors& tensors) {
        rename_all(tensors, [&](const std::string& name) { return prefix + name; });
      });
      EXPECT_EQ(weights_from(folder), expected) << prefix;
    }
    const fs::path compiled = changed(model, [&](FileTensors& tensors) {
      rename_all(tensors, [&](const std::string& name) {
        const size_t dot = name.find('.') + 1;
        return name.substr(0, dot) + "_orig_mod." + name.substr(dot);
      });
    });
    EXPECT_EQ(weights_from(compiled), expected);
  }
  const auto refused = [&](const std::string& name, const std::string& prefix, const char* fact) {
    const fs::path folder = changed(
        small_gpt(), [&](FileTensors& tensors) { tensors[prefix + name] = tensors.at(name); });
    expect_error([&] { import_folder(folder, "bad"); }, {fact});
  };
  refused("transformer.wte.weight", "module.", "module.transformer.wte.weight");
  refused("transformer.wte.weight", "_orig_mod.", "two tensors are \"transformer.wte.weight\"");
  const fs::path adapted = changed(small_gpt(), [&](FileTensors& tensors) {
    tensors["transformer.h.0.attn.c_attn.lora_A.default.weight"] = {{1}, {0.0f}};
  });
  expect_error([&] { import_folder(adapted, "bad"); }, {"lora_A", "merge_and_unload()"});
}

TEST_F(HuggingFaceImport, NamesWhatIsNoModel) {
  const std::string run = save_model("run", small_gpt());
  expect_error([&] { import_folder(run, "bad"); }, {"is a run of Tessera", "checkpoint.from"});
  expect_error([&] { import_folder(run + "/checkpoints/step_00000003", "bad"); },
               {"is a run of Tessera"});
  for (const char* file : {"model.safetensors", "config.json"}) {
    const fs::path folder = folder_of(small_gpt());
    write_file(folder / file,
               "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
    expect_error([&] { import_folder(folder, "bad"); }, {file, "pointer of Git LFS"});
  }
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
          {"\"rope_parameters\": \"partial_rotary_factor\" is 0.5, but must be 1"});
  refused(llama, "partial_rotary_factor", 0.5, {"\"partial_rotary_factor\" is 0.5"});
  refused(llama, "rope_parameters",
          {{"rope_type", "yarn"}, {"factor", 1.0}, {"attention_factor", 1.3}},
          {"\"attention_factor\" is 1.3, but must be 1 or missing, because \"factor\" is 1"});
  refused(llama, "rope_parameters",
          {{"rope_type", "yarn"}, {"factor", 2.0}, {"attention_factor", 0.0}},
          {"\"attention_factor\" is 0, but must be above 0"});
  refused(llama, "is_causal", false, {"\"is_causal\" is false, but must be true"});
  refused(llama, "head_dim", "8", {"must be an integer from 0 to 2^63 - 1, but is \"8\""});
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
  const ModelConfig t5 = small_t5(), gated_t5 = small_gated_t5();
  refused(t5, "scalable_attention", true, {"\"scalable_attention\" is true, but must be false"});
  refused(t5, "feed_forward_proj", "gated-mish",
          {"\"feed_forward_proj\" is \"gated-mish\", but must be one of gated-silu"});
  refused(t5, "feed_forward_proj", "gated-gelu", {"DenseReluDense.wi_0.weight"});
  refused(t5, "dense_act_fn", "silu", {"\"dense_act_fn\" is \"silu\", but \"feed_forward_proj\""});
  refused(gated_t5, "is_gated_act", false, {"\"is_gated_act\" is false, but must be true"});
  refused(t5, "is_encoder_decoder", false, {"\"is_encoder_decoder\" is false"});
  refused(t5, "is_decoder", true, {"\"is_decoder\" is true"});
  refused(t5, "model_type", "umt5", {"\"model_type\" is \"umt5\""});
  refused(t5, "architectures", {"UMT5ForConditionalGeneration"}, {"cannot be imported"});
  refused(t5, "relative_attention_num_buckets", 7, {"model.relative_buckets is 7"});
  refused(t5, "tie_word_embeddings", false, {"lm_head.weight"});
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

TEST_F(HuggingFaceImport, NotesOtherWaysToResizeImages) {
  const Json square = {{"height", 16}, {"width", 16}}, larger = {{"height", 20}, {"width", 20}};
  const std::tuple<Json, std::vector<const char*>> kProcessors[] = {
      {Json::object(), {}},
      {{{"resample", 2}, {"size", square}}, {}},
      {{{"resample", nullptr}, {"size", 16}, {"do_center_crop", true}, {"crop_size", 16}}, {}},
      {{{"resample", 3}, {"size", square}},
       {"\"resample\" is 3 in preprocessor_config.json", "to 16 × 16 pixels bilinearly"}},
      {{{"size", {{"shortest_edge", 16}}}}, {"\"size\" is {\"shortest_edge\":16}"}},
      {{{"size", larger}, {"do_center_crop", true}, {"crop_size", square}},
       {"\"width\":20} and \"do_center_crop\" is true in"}},
      {{{"do_resize", false}, {"resample", 3}}, {"\"do_resize\" is false in"}}};
  for (const auto& [processor, facts] : kProcessors) {
    SCOPED_TRACE(processor.dump());
    write_file(folder_ / "preprocessor_config.json", processor.dump());
    ImportedConfig config;
    config.model.image_size = 16;
    read_image_processor(folder_.path(), config);
    ASSERT_EQ(config.notes.size(), facts.empty() ? 0u : 1u);
    for (const char* fact : facts) EXPECT_THAT(config.notes[0], testing::HasSubstr(fact));
  }
}

// transformers 5 always says that T5's head is tied, and has another key for its scale.
TEST_F(HuggingFaceImport, HeadOfT5IsThatOfTheFiles) {
  fs::path folder = folder_of(small_gated_t5());
  set_config(folder, "tie_word_embeddings", true);
  set_config(folder, "scale_decoder_outputs", false);
  const ModelConfig untied = import_folder(folder, "untied").model;
  EXPECT_FALSE(untied.tie_embeddings);
  EXPECT_FALSE(untied.scaled_logits);

  const auto with_copies = [](FileTensors& tensors) {
    for (const char* name :
         {"lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}) {
      tensors[name] = tensors.at("shared.weight");
    }
    tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = {
        {8, 3}, std::vector<float>(24)};
  };
  const ImportReport tied = import_folder(changed(small_t5(), with_copies), "tied");
  EXPECT_TRUE(tied.model.tie_embeddings);
  EXPECT_TRUE(tied.model.scaled_logits);
  EXPECT_TRUE(tied.notes.empty());
  folder = changed(small_t5(), [&](FileTensors& tensors) {
    with_copies(tensors);
    tensors["decoder.embed_tokens.weight"].values[3] += 1.0f;
  });
  expect_refused(folder, {"\"decoder.embed_tokens.weight\" and \"shared.weight\" differ"});

  folder = folder_of(small_t5());
  set_config(folder, "decoder_start_token_id", 7);
  set_config(folder, "eos_token_id", 8);
  const ImportReport other = import_folder(folder, "other");
  ASSERT_EQ(other.notes.size(), 2u);
  EXPECT_THAT(other.notes[0], testing::HasSubstr("\"decoder_start_token_id\" is 7, but with this "
                                                 "tokenizer, Tessera uses 0"));
  EXPECT_THAT(other.notes[1], testing::HasSubstr("\"eos_token_id\" is 8"));
  set_config(folder, "eos_token_id", {8, 9});
  EXPECT_EQ(import_folder(folder, "several").notes.size(), 1u);
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
  const ParallelGroups groups = make_parallel_groups(*world);
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
