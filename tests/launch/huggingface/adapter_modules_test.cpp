#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/checkpoint/run_state.h"
#include "launch/huggingface/classifier_metadata.h"
#include "launch/huggingface/import/import_adapter.h"
#include "parallel/layers/low_rank_adapter.h"
#include "tests/launch/huggingface/fixture.h"

// What was trained beside low-rank adapters, PEFT's modules_to_save.
namespace tessera {
namespace {

using namespace testing_interop;

class AdapterModules : public HuggingFaceFolder {
 protected:
  static ModelConfig adapted(ModelConfig model) {
    model.lora_rank = 2;
    model.lora_alpha = 5.0;
    return model;
  }

  /// Exports the adapters of a small model and these parameters, as `name`.
  fs::path export_adapters(const std::string& name, const ModelConfig& model,
                           const std::vector<std::string>& trained,
                           Json extra = Json::object()) const {
    extra["trained_beside_adapters"] = trained;
    ExportOptions options;
    options.checkpoint = save_model(name + "_tuned", adapted(model), "", extra);
    options.to = folder_ / name;
    options.adapter = true;
    export_model(options);
    return options.to;
  }

  static fs::path weights(const fs::path& adapter) { return adapter / "adapter_model.safetensors"; }
  static Json settings(const fs::path& adapter) {
    return parse_json(read_file(adapter / "adapter_config.json"), "adapter_config");
  }
  static void set(const fs::path& adapter, const std::string& key, const Json& value) {
    Json changed = settings(adapter);
    changed[key] = value;
    write_file(adapter / "adapter_config.json", changed.dump());
  }

  /// Multiplies whole modules by a factor, so that they differ from the base's.
  static FileTensors scale(const fs::path& adapter, float factor) {
    FileTensors tensors = read_tensors(weights(adapter));
    for (auto& [name, tensor] : tensors) {
      if (name.find(".lora_") != std::string::npos) continue;
      for (float& value : tensor.values) value *= factor;
    }
    write_tensors(weights(adapter), tensors);
    return tensors;
  }

  AdapterImportReport import(const fs::path& adapter, const std::string& base,
                             const std::string& to) const {
    return import_adapter({adapter, folder_ / base, folder_ / to});
  }
};

/// The manifest of what an import wrote.
Manifest manifest_of(const AdapterImportReport& report) {
  return Checkpoint::open(report.checkpoint).manifest();
}

const std::string kPrefix = "base_model.model.";

TEST_F(AdapterModules, ComeBack) {
  ModelConfig model = small_llama();
  model.bias = Bias::attention;
  save_model("base", model);
  const std::vector<std::string> trained = {"embedding.word", "final_norm.weight", "head.weight"};
  const fs::path adapter = export_adapters("adapter", model, trained);
  const std::vector<std::string> modules = {"model.embed_tokens", "model.norm", "lm_head"};
  EXPECT_EQ(settings(adapter).at("modules_to_save"), modules);
  const FileTensors file = scale(adapter, -2.0f);
  const AdapterImportReport report = import(adapter, "base", "back");
  EXPECT_EQ(report.modules, modules);
  const FileTensors before = weights_of(folder_ / "base/checkpoints/step_00000003");
  const FileTensors after = weights_of(report.checkpoint);
  EXPECT_EQ(after.at("embedding.word"), file.at(kPrefix + "model.embed_tokens.weight"));
  EXPECT_EQ(after.at("final_norm.weight"), file.at(kPrefix + "model.norm.weight"));
  EXPECT_EQ(after.at("head.weight"), file.at(kPrefix + "lm_head.weight"));
  EXPECT_NE(after.at("head.weight"), before.at("head.weight"));
  EXPECT_EQ(after.at("blocks.1.mlp_norm.weight"), before.at("blocks.1.mlp_norm.weight"));

  // A checkpoint without optimizer state still knows them.
  ExportOptions again{report.checkpoint, folder_ / "again"};
  again.adapter = true;
  export_model(again);
  EXPECT_EQ(read_tensors(weights(again.to)), file);
  EXPECT_EQ(settings(again.to), settings(adapter));

  FileTensors partial = file;
  partial[kPrefix + "model.layers.0.self_attn.q_proj.bias"] = {{12}, std::vector<float>(12)};
  write_tensors(weights(adapter), partial);
  expect_error([&] { import(adapter, "base", "bad"); },
               {"self_attn.q_proj", "blocks.0.attention.qkv.bias", "all or none"});
  partial = file;
  partial.erase(kPrefix + "lm_head.weight");
  write_tensors(weights(adapter), partial);
  expect_error([&] { import(adapter, "base", "bad"); },
               {"\"modules_to_save\" has lm_head", "lacks", "lm_head.weight"});
  partial[kPrefix + "lm_head.weight"] = {{1, 12}, std::vector<float>(12)};
  write_tensors(weights(adapter), partial);
  expect_error([&] { import(adapter, "base", "bad"); }, {"lm_head.weight", "has shape (1, 12)"});
}

// GPT-2's weights are transposed, and its queries, keys and values are one module.
TEST_F(AdapterModules, MayBeLayersOfBlocks) {
  save_model("base", small_gpt());
  ModelConfig adapted = small_gpt();
  adapted.lora_targets = {"*.mlp.*"};
  const std::string qkv = "blocks.0.attention.qkv.weight";
  const fs::path adapter = export_adapters("adapter", adapted, {qkv});
  const FileTensors file = read_tensors(weights(adapter));
  EXPECT_EQ(settings(adapter).at("modules_to_save"), Json::array({"transformer.h.0.attn.c_attn"}));
  EXPECT_EQ(file.at(kPrefix + "transformer.h.0.attn.c_attn.weight").shape, Shape({12, 36}));
  EXPECT_TRUE(file.contains(kPrefix + "transformer.h.0.attn.c_attn.bias")) << "of the same module";
  const FileTensors tuned = weights_of(folder_ / "adapter_tuned/checkpoints/step_00000003");
  EXPECT_EQ(weights_of(import(adapter, "base", "back").checkpoint).at(qkv), tuned.at(qkv));

  expect_error([&] { export_adapters("both", small_gpt(), {qkv}); },
               {qkv.c_str(), "beside its layer's adapter", "without --adapter"});
  expect_error([&] { export_adapters("t5", small_t5(), {"embedding.word"}); },
               {"embedding.word", "no module in transformers", "without --adapter"});
  expect_error([&] { export_adapters("bert", small_masked_lm(), {"head.bias"}); },
               {"head.bias", "no module in transformers"});
}

// PEFT copies each of the modules that share a weight.
TEST_F(AdapterModules, UntieTheOutputHead) {
  const ModelConfig tied = small_llama(ModelKind::qwen2);
  save_model("base", tied);
  const std::string head = kPrefix + "lm_head.weight",
                    words = kPrefix + "model.embed_tokens.weight";
  const fs::path adapter = export_adapters("adapter", tied, {"embedding.word"});
  EXPECT_EQ(settings(adapter).at("modules_to_save"),
            Json::array({"model.embed_tokens", "lm_head"}));
  FileTensors file = scale(adapter, -2.0f);
  EXPECT_EQ(file.at(head), file.at(words));
  const auto model_in = [&](const AdapterImportReport& report) {
    return model_from_json(Checkpoint::open(report.checkpoint).manifest().model);
  };
  const AdapterImportReport equal = import(adapter, "base", "equal");
  EXPECT_TRUE(model_in(equal).tie_embeddings);
  EXPECT_EQ(weights_of(equal.checkpoint).at("embedding.word"), file.at(words));

  for (float& value : file.at(head).values) value += 1.0f;
  write_tensors(weights(adapter), file);
  const AdapterImportReport differ = import(adapter, "base", "differ");
  EXPECT_FALSE(model_in(differ).tie_embeddings);
  EXPECT_EQ(weights_of(differ.checkpoint).at("head.weight"), file.at(head));
  EXPECT_EQ(weights_of(differ.checkpoint).at("embedding.word"), file.at(words));

  file.erase(head);
  write_tensors(weights(adapter), file);
  set(adapter, "modules_to_save", Json::array({"embed_tokens"}));
  const FileTensors before = weights_of(folder_ / "base/checkpoints/step_00000003");
  const FileTensors one = weights_of(import(adapter, "base", "one").checkpoint);
  EXPECT_EQ(one.at("head.weight"), before.at("embedding.word")) << "the head stays as it was";
  EXPECT_EQ(one.at("embedding.word"), file.at(words));

  save_model("gpt", small_gpt());
  const fs::path of_gpt = export_adapters("of_gpt", small_gpt(), {"embedding.word"});
  FileTensors theirs = read_tensors(weights(of_gpt));
  theirs.erase(head);
  write_tensors(weights(of_gpt), theirs);
  expect_error([&] { import(of_gpt, "gpt", "bad"); }, {"GPT-2", "one tensor for both"});
}

TEST_F(AdapterModules, BringAClassifier) {
  for (const ModelKind kind : {ModelKind::roberta, ModelKind::modernbert}) {
    const std::string name(to_string(kind));
    ModelConfig model = small_encoder(kind, Head::classification);
    const fs::path adapter = export_adapters(name, model, {"classifier.weight", "classifier.bias"},
                                             {{"labels", "x, y,z"}});
    EXPECT_EQ(settings(adapter).at("task_type"), "SEQ_CLS");
    EXPECT_EQ(settings(adapter).at("modules_to_save"), Json::array({"classifier"}));
    const FileTensors file = read_tensors(weights(adapter));
    set(adapter, "modules_to_save",
        Json::array({"classifier", "score"}));  // as PEFT does by itself

    const std::string base = name + "_base";
    save_model(base, small_encoder(kind));
    const AdapterImportReport report = import(adapter, base, name + "_back");
    const ModelConfig back = model_from_json(Checkpoint::open(report.checkpoint).manifest().model);
    EXPECT_EQ(back.head, Head::classification);
    EXPECT_EQ(back.num_labels, 3);
    const bool is_roberta = kind == ModelKind::roberta;
    const std::string theirs = is_roberta ? "classifier.out_proj.weight" : "classifier.weight";
    const FileTensors after = weights_of(report.checkpoint);
    EXPECT_EQ(after.at("classifier.weight"), file.at(kPrefix + theirs));
    // ModernBERT's classifiers and its pre-training have the same dense layer.
    const FileTensors before = weights_of(folder_ / (base + "/checkpoints/step_00000003"));
    EXPECT_EQ(after.at("pooler.weight"), is_roberta ? file.at(kPrefix + "classifier.dense.weight")
                                                    : before.at("head.transform.weight"));
    EXPECT_THAT(report.notes, testing::IsEmpty());
    EXPECT_EQ(manifest_of(report).extra.at("labels"), "x,y,z");
    set(adapter, "task_type", nullptr);
    expect_error([&] { import(adapter, base, "bad"); }, {"task_type", "SEQ_CLS"});
  }
  const fs::path bert = export_adapters("bert", small_classifier(), {"classifier.weight"});
  save_model("masked", small_masked_lm());
  expect_error([&] { import(bert, "masked", "bad"); },
               {"bert.pooler.dense.weight", "--architecture"});
}

// PEFT ignores them, and drops them when it saves an adapter.
TEST_F(AdapterModules, KeepSettingsOfClassifiers) {
  ModelConfig model = small_mean_classifier();
  model.problem_type = ProblemType::multi_label_classification;
  const fs::path adapter = export_adapters(
      "adapter", model, {"classifier.weight", "classifier.bias"}, {{"labels", "a,b,c"}});
  save_model("base", small_encoder(ModelKind::modernbert));
  save_model("other", small_encoder(ModelKind::modernbert, Head::classification), "",
             {{"labels", "d,e,f"}});
  for (const std::string base : {"base", "other"}) {
    const AdapterImportReport report = import(adapter, base, base + "_back");
    EXPECT_EQ(manifest_of(report).model, architecture_json(adapted(model)));
    EXPECT_EQ(manifest_of(report).extra.at("labels"), "a,b,c");
    EXPECT_THAT(report.notes, testing::IsEmpty());
  }

  write_tensors(weights(adapter), read_tensors(weights(adapter)));
  const AdapterImportReport plain = import(adapter, "base", "plain");
  EXPECT_THAT(plain.notes, testing::ElementsAre(
                               testing::HasSubstr("so they are numbers: to name the 3 labels")));
  EXPECT_EQ(manifest_of(plain).model.at("problem_type"), "single_label_classification");
  EXPECT_FALSE(manifest_of(plain).extra.contains("labels"));
  const AdapterImportReport named = import(adapter, "other", "named");
  EXPECT_THAT(named.notes, testing::IsEmpty());
  EXPECT_EQ(manifest_of(named).extra.at("labels"), "d,e,f");
}

TEST_F(AdapterModules, RefuseDamagedSettingsOfClassifiers) {
  const auto read = [](const std::string& text) {
    return read_classifier_metadata({{"tessera_classifier", text}}, "adapter.safetensors");
  };
  const auto json = [](const char* problem_type, const char* pooling, const Json& labels) {
    const Json settings = {
        {"problem_type", problem_type}, {"classifier_pooling", pooling}, {"labels", labels}};
    return settings.dump();
  };
  const char* kSingle = "single_label_classification";
  EXPECT_FALSE(read_classifier_metadata({{"format", "pt"}}, "adapter.safetensors"));
  EXPECT_EQ(read(json(kSingle, "mean", {"a", "b"}))->labels, (std::vector<std::string>{"a", "b"}));
  expect_error([&] { read("{"); }, {"adapter.safetensors: the metadata", "not valid JSON"});
  expect_error([&] { read("{}"); }, {"problem_type"});
  expect_error([&] { read(json("x", "mean", {"a", "b"})); }, {"\"problem_type\" is \"x\""});
  expect_error([&] { read(json(kSingle, "max", {"a", "b"})); }, {"\"max\"", "\"cls\""});
  expect_error([&] { read(json(kSingle, "cls", {"a", 1})); }, {"must be a list of names"});
  expect_error([&] { read(json(kSingle, "cls", {"a", "a"})); }, {"must be different"});
}

// The names in their files lack the prefix that the names of classes with a head have.
TEST_F(AdapterModules, MakeAnEncoderEmbedTexts) {
  for (const ModelKind kind : {ModelKind::bert, ModelKind::roberta, ModelKind::modernbert}) {
    const std::string name(to_string(kind)), base = name + "_base";
    const ModelConfig model = small_embeddings(kind, Pooling::cls);
    const fs::path adapter = export_adapters(name, model, {});
    EXPECT_EQ(settings(adapter).at("task_type"), "FEATURE_EXTRACTION");
    save_model(base, small_encoder(kind));
    const AdapterImportReport report = import(adapter, base, name + "_back");
    EXPECT_THAT(report.notes, testing::IsEmpty());
    EXPECT_EQ(manifest_of(report).model, architecture_json(adapted(model)));
    const FileTensors tuned = weights_of(folder_ / (name + "_tuned/checkpoints/step_00000003"));
    const FileTensors before = weights_of(folder_ / (base + "/checkpoints/step_00000003"));
    const FileTensors after = weights_of(report.checkpoint);
    EXPECT_EQ(after.size(), tuned.size());
    for (const auto& [weight, tensor] : after) {
      EXPECT_EQ(tensor, (is_of_low_rank_adapter(weight) ? tuned : before).at(weight)) << weight;
    }

    // As PEFT alone saves them, without the modules of sentence-transformers.
    fs::remove(adapter / "modules.json");
    const AdapterImportReport mean = import(adapter, base, name + "_mean");
    EXPECT_THAT(mean.notes, testing::ElementsAre(testing::HasSubstr("by the mean of their")));
    EXPECT_EQ(manifest_of(mean).model,
              architecture_json(adapted(small_embeddings(kind, Pooling::mean))));
    save_model(name + "_cls", model);
    const AdapterImportReport cls = import(adapter, name + "_cls", name + "_again");
    EXPECT_THAT(cls.notes, testing::ElementsAre(testing::HasSubstr("hidden state of [CLS]")));
    EXPECT_EQ(manifest_of(cls).model, architecture_json(adapted(model)));
  }
}

}  // namespace
}  // namespace tessera
