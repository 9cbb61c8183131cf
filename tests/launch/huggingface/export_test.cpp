#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "core/dtype.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/huggingface/import/import_adapter.h"
#include "launch/huggingface/model_class.h"
#include "launch/support/text/byte_size.h"
#include "parallel/layers/low_rank_adapter.h"
#include "tests/launch/huggingface/fixture.h"

namespace tessera {
namespace {

using namespace testing_interop;

class HuggingFaceExport : public HuggingFaceFolder {};

TEST_F(HuggingFaceExport, RoundTripsBitForBit) {
  const std::pair<const char*, ModelConfig> kModels[] = {
      {"gpt", small_gpt()},
      {"llama", small_llama()},
      {"mistral", small_llama(ModelKind::mistral)},
      {"qwen2", small_llama(ModelKind::qwen2)},
      {"qwen3", small_llama(ModelKind::qwen3)},
      {"roberta", small_encoder(ModelKind::roberta)},
      {"roberta_labels", small_encoder(ModelKind::roberta, Head::classification)},
      {"modernbert", small_encoder(ModelKind::modernbert)},
      {"modernbert_labels", small_encoder(ModelKind::modernbert, Head::classification)},
      {"bert_words", small_encoder(ModelKind::bert, Head::token_classification)},
      {"roberta_words", small_encoder(ModelKind::roberta, Head::token_classification)},
      {"modernbert_words", small_encoder(ModelKind::modernbert, Head::token_classification)},
      {"bert_mean", small_embeddings(ModelKind::bert, Pooling::mean)},
      {"bert_cls", small_embeddings(ModelKind::bert, Pooling::cls)},
      {"roberta_mean", small_embeddings(ModelKind::roberta, Pooling::mean)},
      {"modernbert_cls", small_embeddings(ModelKind::modernbert, Pooling::cls)},
      {"mean_labels", small_mean_classifier()},
      {"t5", small_t5()},
      {"t5_gated", small_gated_t5()},
      {"masked", small_masked_lm()},
      {"pairs", small_pretraining()},
      {"labels", small_classifier()}};
  for (const auto& [name, model] : kModels) {
    for (const int64_t shard : {int64_t{1'000'000'000}, int64_t{3000}}) {
      const std::string tag = fmt::format("{}_{}", name, shard);
      const std::string run = save_model(tag, model);
      const ImportReport report =
          import_folder(export_run(run, tag + "_out", shard), tag + "_back");
      EXPECT_EQ(weights_of(report.checkpoint), weights_of(run + "/checkpoints/step_00000003"));
      EXPECT_EQ(report.checkpoint.filename(), "step_00000000");
      const Checkpoint back = Checkpoint::open(report.checkpoint);
      EXPECT_EQ(back.manifest().model, architecture_json(model)) << tag;
      EXPECT_EQ(identity_of(*tokenizer_of(back)), identity_of(*make_tokenizer(wordpiece())));
    }
  }
}

ModelConfig with_adapters(ModelConfig model) {
  model.lora_rank = 2;
  model.lora_alpha = 5.0;
  model.lora_dropout = 0.25;
  return model;
}

/// W + scale × B A of a layer of ours, and A and B.
struct Merged {
  Merged(const FileTensors& ours, const std::string& layer)
      : a(ours.at(layer + ".lora_a")), b(ours.at(layer + ".lora_b")) {
    const FileTensor& weight = ours.at(layer + ".weight");
    const auto in = static_cast<size_t>(weight.shape[-1]);
    constexpr size_t kRank = 2;
    for (size_t i = 0; i < weight.values.size(); ++i) {
      double sum = 0.0;
      for (size_t r = 0; r < kRank; ++r) {
        sum += double{b.values[i / in * kRank + r]} * double{a.values[r * in + i % in]};
      }
      values.push_back(weight.values[i] + 2.5 * sum);
    }
  }

  FileTensor a, b;
  std::vector<double> values;
};

// Conv1D of GPT-2 is transposed, and Llama's grouped queries, keys and values are three layers.
TEST_F(HuggingFaceExport, MergesAdaptersOrWritesThemAlone) {
  const std::string run = save_model("gpt", with_adapters(small_gpt()));
  const FileTensors ours = weights_of(run + "/checkpoints/step_00000003");
  const FileTensors theirs = read_tensors(export_run(run, "merged") / "model.safetensors");
  for (const auto& [name, tensor] : theirs) EXPECT_EQ(name.find("lora"), std::string::npos);
  const FileTensor& up = theirs.at("transformer.h.1.mlp.c_fc.weight");  // (in, out)
  const Merged merged(ours, "blocks.1.mlp.up");
  for (size_t out = 0; out < 20; ++out) {
    for (size_t in = 0; in < 12; ++in) {
      ASSERT_NEAR(up.values[in * 20 + out], merged.values[out * 12 + in], 1e-5);
    }
  }
  ExportOptions options;
  options.checkpoint = run;
  options.to = folder_ / "adapter";
  options.adapter = true;
  export_model(options);
  const Json config = parse_json(read_file(options.to / "adapter_config.json"), "adapter_config");
  EXPECT_EQ(config.at("r"), 2);
  EXPECT_EQ(config.at("lora_alpha"), 5.0);
  EXPECT_EQ(config.at("lora_dropout"), 0.25);
  EXPECT_EQ(config.at("fan_in_fan_out"), true);
  EXPECT_EQ(config.at("target_modules").size(), 8u);
  EXPECT_FALSE(fs::exists(options.to / "config.json")) << "transformers would take it for a model";
  const FileTensors adapter = read_tensors(options.to / "adapter_model.safetensors");
  EXPECT_EQ(adapter.size(), 16u);
  const std::string up_name = "base_model.model.transformer.h.1.mlp.c_fc.";
  EXPECT_EQ(adapter.at(up_name + "lora_A.weight"), merged.a);
  EXPECT_EQ(adapter.at(up_name + "lora_B.weight"), merged.b);

  // One group: 3 queries, a key and a value, each of 2 rows.
  const std::string llama = save_model("llama", with_adapters(small_llama()));
  const Merged qkv(weights_of(llama + "/checkpoints/step_00000003"), "blocks.0.attention.qkv");
  const FileTensors split = read_tensors(export_run(llama, "llama_merged") / "model.safetensors");
  options.checkpoint = llama;
  options.to = folder_ / "llama_adapter";
  export_model(options);
  const FileTensors alone = read_tensors(options.to / "adapter_model.safetensors");
  const auto expect_rows = [&](const char* layer, size_t first, size_t rows) {
    const FileTensor& weight = split.at(fmt::format("model.layers.0.self_attn.{}.weight", layer));
    const std::string name =
        fmt::format("base_model.model.model.layers.0.self_attn.{}.lora_", layer);
    EXPECT_EQ(alone.at(name + "A.weight"), qkv.a) << "the same A for all three";
    const FileTensor& b = alone.at(name + "B.weight");
    for (size_t group = 0; group < 2; ++group) {
      for (size_t row = 0; row < rows; ++row) {
        const size_t theirs_at = group * rows + row, ours_at = group * 10 + first + row;
        for (size_t in = 0; in < 12; ++in) {
          ASSERT_NEAR(weight.values[theirs_at * 12 + in], qkv.values[ours_at * 12 + in], 1e-5);
        }
        for (size_t r = 0; r < 2; ++r) {
          ASSERT_EQ(b.values[theirs_at * 2 + r], qkv.b.values[ours_at * 2 + r]);
        }
      }
    }
  };
  expect_rows("q_proj", 0, 6);
  expect_rows("k_proj", 6, 2);
  expect_rows("v_proj", 8, 2);

  options.checkpoint = save_model("plain", small_gpt());
  expect_error([&] { export_model(options); }, {"overwrite"});
  options.overwrite = true;
  expect_error([&] { export_model(options); }, {"has no low-rank adapters", "without --adapter"});
  EXPECT_TRUE(fs::exists(options.to / "adapter_model.safetensors"));
}

/// What an adapter adds to its layer's weight, by its own rank.
std::vector<double> added(const FileTensors& weights, const std::string& layer, double scale) {
  const FileTensor &a = weights.at(layer + ".lora_a"), &b = weights.at(layer + ".lora_b");
  const auto rank = static_cast<size_t>(a.shape[0]), in = static_cast<size_t>(a.shape[1]);
  std::vector<double> sums(b.values.size() / rank * in);
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t r = 0; r < rank; ++r) {
      sums[i] += scale * b.values[i / in * rank + r] * double{a.values[r * in + i % in]};
    }
  }
  return sums;
}

TEST_F(HuggingFaceExport, AdaptersComeBack) {
  const std::pair<const char*, ModelConfig> kModels[] = {{"gpt", small_gpt()},
                                                         {"qwen3", small_llama(ModelKind::qwen3)},
                                                         {"masked", small_masked_lm()},
                                                         {"t5", small_gated_t5()}};
  for (const auto& [name, model] : kModels) {
    const std::string tag = name, run = save_model(tag, with_adapters(model));
    ExportOptions options;
    options.checkpoint = run;
    options.to = folder_ / (tag + "_adapter");
    options.adapter = true;
    export_model(options);
    const std::string base = save_model(tag + "_base", model);
    const auto import = [&](const std::string& to) {
      return import_adapter({options.to, base, folder_ / to});
    };
    const AdapterImportReport report = import(tag + "_back");
    EXPECT_EQ(report.rank, 2);
    const FileTensors before = weights_of(run + "/checkpoints/step_00000003");
    const FileTensors back = weights_of(report.checkpoint);
    const FileTensors of_base = weights_of(base + "/checkpoints/step_00000003");
    EXPECT_EQ(back.size(), before.size());
    for (const auto& [weight, tensor] : back) {
      const bool adapts = is_of_low_rank_adapter(weight);
      EXPECT_EQ(tensor, (adapts ? before : of_base).at(weight)) << weight;
    }
    EXPECT_EQ(Checkpoint::open(report.checkpoint).manifest().model,
              architecture_json(with_adapters(model)));

    // PEFT gives queries, keys and values different A.
    const fs::path file = options.to / "adapter_model.safetensors";
    const FileTensors tensors = read_tensors(file);
    if (tag != "qwen3") continue;
    FileTensors other = tensors;
    const std::string attention = "base_model.model.model.layers.0.self_attn.";
    for (float& value : other.at(attention + "q_proj.lora_A.weight").values) value *= -1.0f;
    write_tensors(file, other);
    const AdapterImportReport wide = import("wide");
    EXPECT_EQ(wide.rank, 4) << "keys and values still have the same";
    const FileTensors widened = weights_of(wide.checkpoint);
    for (const std::string layer : {"blocks.0.attention.qkv", "blocks.1.mlp.gate_up"}) {
      const std::vector<double> now = added(widened, layer, 2.5), was = added(before, layer, 2.5);
      for (size_t i = 0; i < now.size(); ++i) {
        // Rows of a group: 6 of its queries, 2 of the key and 2 of the value.
        const bool is_query = layer == "blocks.0.attention.qkv" && i / 12 % 10 < 6;
        ASSERT_NEAR(now[i], is_query ? -was[i] : was[i], 1e-6) << layer << " " << i;
      }
    }
    EXPECT_EQ(model_from_json(Checkpoint::open(wide.checkpoint).manifest().model).lora_alpha, 10.0);

    other.erase(attention + "k_proj.lora_B.weight");
    write_tensors(file, other);
    expect_error([&] { import("bad"); }, {"lacks", "k_proj.lora_B.weight"});
    other = tensors;
    other["base_model.model.model.layers.9.mlp.up_proj.lora_A.weight"] = {{1}, {0.0f}};
    write_tensors(file, other);
    expect_error([&] { import("bad"); }, {"layers.9", "no place"});
    write_tensors(file, tensors);
    const Json settings =
        parse_json(read_file(options.to / "adapter_config.json"), "adapter_config");
    const std::tuple<const char*, Json, const char*> kBad[] = {
        {"use_dora", true, "plain LoRA"},
        {"alora_invocation_tokens", Json::array({1}), "plain LoRA"},
        {"init_lora_weights", "pissa_niter_4",
         "\"pissa_niter_4\", but must be true, false or one of"},
        {"init_lora_weights", "olora", "weights of the base model"},
        {"init_lora_weights", "corda", "path_initial_model_for_weight_conversion"},
        {"init_lora_weights", "loftq", "\"loftq\""},
        {"init_lora_weights", "lora_ga", "\"lora_ga\""},
        {"init_lora_weights", 1, "must be a string"},
        {"r", 0, "must be from 1"},
        {"r", 3, "has shape"},
        {"lora_dropout", 1.0, "below 1"},
        {"modules_to_save", Json::array({"lm_head"}), "lacks"},
        {"modules_to_save", Json::array({1}), "list of names"},
        {"lora_alpha", 1e9, "\"lora_alpha\" is 1e+09"},
        {"lora_alpha", -1, "\"lora_alpha\" is -1"},
        {"alpha_pattern", {{".*q_proj", 4}}, "regular expression \".*q_proj\""},
        {"alpha_pattern", {{"q_proj", "4"}}, "must have a number"},
        {"alpha_pattern", {{"q_proj", 4}, {"self_attn.q_proj", 5}}, "has 4 and 5"},
        {"rank_pattern", {{"q_proj", 0}}, "from 1 to"},
        {"rank_pattern", {{"q_proj", 3}}, "has shape"},
        {"layers_to_transform", Json::array({1}), "does not list layer 0"},
        {"layers_to_transform", 0, "does not list layer 1"},
        {"peft_type", "IA3", "\"LORA\""}};
    for (const auto& [key, value, fact] : kBad) {
      Json bad = settings;
      bad[key] = value;
      write_file(options.to / "adapter_config.json", bad.dump());
      expect_error([&] { import("bad"); }, {fact});
      EXPECT_FALSE(fs::exists(folder_ / "bad"));
    }
    for (const Json& harmless : {Json(false), Json(nullptr), Json("gaussian"), Json("eva")}) {
      Json good = settings;
      good["init_lora_weights"] = harmless;
      write_file(options.to / "adapter_config.json", good.dump());
      EXPECT_NO_THROW(import("initialized_by_" + harmless.dump())) << harmless;
    }
  }
}

// The ranks are padded with zeros, and scales are multiplied into B.
TEST_F(HuggingFaceExport, AdaptersMayHaveSeveralRanksAndScales) {
  const ModelConfig model = small_llama(ModelKind::qwen3);
  const std::string run = save_model("tuned", with_adapters(model)),
                    base = save_model("base", model);
  ExportOptions options;
  options.checkpoint = run;
  options.to = folder_ / "adapter";
  options.adapter = true;
  export_model(options);
  const fs::path file = options.to / "adapter_model.safetensors";
  FileTensors tensors = read_tensors(file);
  const std::string module = "base_model.model.model.layers.0.self_attn.o_proj.lora_";
  FileTensor &a = tensors.at(module + "A.weight"), &b = tensors.at(module + "B.weight");
  const auto in = static_cast<size_t>(a.shape[1]), out = static_cast<size_t>(b.shape[0]);
  a = {{3, static_cast<int64_t>(in)}, std::vector<float>(3 * in)};
  b = {{static_cast<int64_t>(out), 3}, std::vector<float>(out * 3)};
  for (size_t i = 0; i < a.values.size(); ++i) a.values[i] = 0.01f * static_cast<float>(i % 7);
  for (size_t i = 0; i < b.values.size(); ++i) b.values[i] = 0.02f * static_cast<float>(i % 5);
  write_tensors(file, tensors);
  Json settings = parse_json(read_file(options.to / "adapter_config.json"), "adapter_config");
  settings["rank_pattern"] = {{"layers.0.self_attn.o_proj", 3}};
  settings["alpha_pattern"] = {{"^model\\.layers\\.0\\.self_attn\\.o_proj$", 6}, {"down_proj", 20}};
  settings["layers_to_transform"] = {0, 1};
  settings["layers_pattern"] = "layers";
  write_file(options.to / "adapter_config.json", settings.dump());

  const AdapterImportReport report = import_adapter({options.to, base, folder_ / "back"});
  EXPECT_EQ(report.rank, 3);
  EXPECT_EQ(report.notes.size(), 2U);
  const double scale = 2.5;  // of alpha 5 and rank 2
  EXPECT_EQ(model_from_json(Checkpoint::open(report.checkpoint).manifest().model).lora_alpha,
            3 * scale);
  const FileTensors before = weights_of(run + "/checkpoints/step_00000003");
  const FileTensors back = weights_of(report.checkpoint);
  const auto expect_added = [&](const std::string& layer, const std::vector<double>& expected) {
    const std::vector<double> now = added(back, layer, scale);
    ASSERT_EQ(now.size(), expected.size()) << layer;
    for (size_t i = 0; i < now.size(); ++i) ASSERT_NEAR(now[i], expected[i], 1e-6) << layer << i;
  };
  expect_added("blocks.0.attention.output",
               added({{"x.lora_a", a}, {"x.lora_b", b}}, "x", 6.0 / 3.0));
  expect_added("blocks.1.mlp.down", added(before, "blocks.1.mlp.down", 20.0 / 2.0));
  expect_added("blocks.1.attention.output", added(before, "blocks.1.attention.output", scale));

  settings["layers_pattern"] = Json::array({"h"});
  write_file(options.to / "adapter_config.json", settings.dump());
  expect_error(
      [&] {
        import_adapter({options.to, base, folder_ / "bad"});
      },
      {"\"layers_pattern\" is \"h\""});
}

TEST_F(HuggingFaceExport, MatchesHuggingFaceLayouts) {
  const ModelConfig model = small_gpt();
  const std::string run = save_model("gpt", model);
  const FileTensors ours = weights_of(run + "/checkpoints/step_00000003");
  const FileTensors theirs = read_tensors(export_run(run, "out") / "model.safetensors");
  EXPECT_EQ(theirs.at("transformer.wte.weight"), ours.at("embedding.word"));
  EXPECT_EQ(theirs.count("lm_head.weight"), 0u);  // tied
  // c_attn (in, 3 × out): the columns are all queries, then keys, then values.
  const FileTensor& fused = theirs.at("transformer.h.1.attn.c_attn.weight");
  const FileTensor& qkv = ours.at("blocks.1.attention.qkv.weight");
  EXPECT_EQ(fused.shape, Shape({12, 36}));
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  for (int64_t part = 0; part < 3; ++part) {
    for (int64_t out = 0; out < 12; ++out) {
      for (int64_t in = 0; in < 12; ++in) {
        ASSERT_EQ(fused.values[at(in * 36 + part * 12 + out)],
                  qkv.values[at((part * 12 + out) * 12 + in)]);
      }
    }
  }
  EXPECT_EQ(theirs.at("transformer.h.0.attn.c_attn.bias").values,
            ours.at("blocks.0.attention.qkv.bias").values);

  const std::string bert = save_model("bert", small_pretraining());
  const FileTensors bert_ours = weights_of(bert + "/checkpoints/step_00000003");
  const FileTensors bert_theirs = read_tensors(export_run(bert, "bert_out") / "model.safetensors");
  const auto& all = bert_ours.at("blocks.0.attention.qkv.weight").values;
  EXPECT_EQ(bert_theirs.at("bert.encoder.layer.0.attention.self.key.weight").values,
            std::vector<float>(all.begin() + 144, all.begin() + 288));
  EXPECT_EQ(bert_theirs.at("cls.seq_relationship.weight"), bert_ours.at("next_sentence.weight"));
}

TEST_F(HuggingFaceExport, IndexMapsTensorsToFiles) {
  const fs::path out = export_run(save_model("gpt", small_gpt()), "out", 3000);
  const Json index = parse_json(read_file(out / "model.safetensors.index.json"), "index");
  std::set<std::string> files;
  int64_t bytes = 0;
  for (const auto& [tensor, file] : index.at("weight_map").items()) files.insert(file);
  for (const std::string& file : files) {
    const FileTensors tensors = read_tensors(out / file);
    int64_t size = 0;
    for (const auto& [name, tensor] : tensors) {
      EXPECT_EQ(index.at("weight_map").at(name), file);
      size += tensor.shape.numel() * 4;
    }
    EXPECT_TRUE(size <= 3000 || tensors.size() == 1) << file;
    bytes += size;
  }
  EXPECT_GT(files.size(), 3u);
  EXPECT_EQ(*files.begin(), fmt::format("model-00001-of-{:05}.safetensors", files.size()));
  EXPECT_EQ(index.at("metadata").at("total_size"), bytes);
  EXPECT_FALSE(fs::exists(out / "model.safetensors"));
}

TEST_F(HuggingFaceExport, ConfigDescribesModel) {
  ModelConfig model = small_gpt();
  model.norm_eps = 3e-5;
  const fs::path out = export_run(save_model("gpt", model), "out");
  const Json gpt = config_of(out);
  EXPECT_EQ(gpt.at("architectures"), Json({"GPT2LMHeadModel"}));
  EXPECT_EQ(gpt.at("model_type"), "gpt2");
  EXPECT_EQ(gpt.at("activation_function"), "gelu_new");
  EXPECT_EQ(gpt.at("n_inner"), 20);
  EXPECT_EQ(gpt.at("n_positions"), 10);
  EXPECT_EQ(gpt.at("vocab_size"), 56);
  EXPECT_EQ(gpt.at("layer_norm_epsilon"), 3e-5);
  EXPECT_EQ(gpt.at("tie_word_embeddings"), true);
  EXPECT_TRUE(gpt.at("eos_token_id").is_null());  // WordPiece has none
  EXPECT_TRUE(fs::exists(out / "generation_config.json"));

  const fs::path bert_out = export_run(save_model("bert", small_pretraining()), "bert_out");
  const Json bert = config_of(bert_out);
  EXPECT_EQ(bert.at("architectures"), Json({"BertForPreTraining"}));
  EXPECT_EQ(bert.at("hidden_act"), "gelu");
  EXPECT_EQ(bert.at("layer_norm_eps"), 1e-12);
  EXPECT_EQ(bert.at("intermediate_size"), 20);
  EXPECT_EQ(bert.at("pad_token_id"), 0);
  EXPECT_FALSE(fs::exists(bert_out / "generation_config.json"));
}

TEST_F(HuggingFaceExport, T5HasNamesAndKeysOfTransformers) {
  const std::string run = save_model("t5", small_t5());
  const fs::path out = export_run(run, "out");
  const Json config = config_of(out);
  EXPECT_EQ(config.at("architectures"), Json({"T5ForConditionalGeneration"}));
  EXPECT_EQ(config.at("model_type"), "t5");
  EXPECT_EQ(config.at("feed_forward_proj"), "relu");
  EXPECT_EQ(config.at("d_kv"), 5);
  EXPECT_EQ(config.at("d_ff"), 20);
  EXPECT_EQ(config.at("num_layers"), 2);
  EXPECT_EQ(config.at("num_decoder_layers"), 3);
  EXPECT_EQ(config.at("relative_attention_num_buckets"), 8);
  EXPECT_EQ(config.at("relative_attention_max_distance"), 9);
  EXPECT_EQ(config.at("tie_word_embeddings"), true);
  EXPECT_EQ(config.at("pad_token_id"), 0);
  EXPECT_EQ(config.at("decoder_start_token_id"), 0);  // [PAD]
  const Json ids = parse_json(read_file(out / "generation_config.json"), "generation_config.json");
  EXPECT_EQ(ids.at("decoder_start_token_id"), 0);
  EXPECT_EQ(ids.at("eos_token_id"), config.at("eos_token_id"));

  const FileTensors ours = weights_of(run + "/checkpoints/step_00000003");
  const FileTensors theirs = read_tensors(out / "model.safetensors");
  EXPECT_EQ(theirs.count("lm_head.weight"), 0u);
  EXPECT_EQ(theirs.at("shared.weight"), ours.at("embedding.word"));
  EXPECT_EQ(theirs.at("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
            ours.at("encoder.position_bias.weight"));
  EXPECT_EQ(theirs.at("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
            ours.at("decoder.position_bias.weight"));
  EXPECT_EQ(theirs.at("decoder.block.2.layer.1.EncDecAttention.q.weight"),
            ours.at("decoder.blocks.2.cross_attention.query.weight"));
  EXPECT_EQ(theirs.at("decoder.block.2.layer.2.DenseReluDense.wi.weight"),
            ours.at("decoder.blocks.2.mlp.up.weight"));
  const auto& qkv = ours.at("encoder.blocks.1.attention.qkv.weight").values;
  EXPECT_EQ(theirs.at("encoder.block.1.layer.0.SelfAttention.k.weight").values,
            std::vector<float>(qkv.begin() + 180, qkv.begin() + 360));

  const fs::path gated = export_run(save_model("gated", small_gated_t5()), "gated_out");
  EXPECT_EQ(config_of(gated).at("feed_forward_proj"), "gated-gelu");
  EXPECT_EQ(config_of(gated).at("tie_word_embeddings"), false);
  const FileTensors gated_theirs = read_tensors(gated / "model.safetensors");
  EXPECT_EQ(gated_theirs.count("lm_head.weight"), 1u);
  EXPECT_EQ(gated_theirs.count("encoder.block.0.layer.1.DenseReluDense.wi_1.weight"), 1u);
}

TEST_F(HuggingFaceExport, RoundsToBf16AndWritesMissingBiasesAsZeros) {
  ModelConfig model = small_masked_lm();
  model.bias = Bias::none;
  model.token_types = 0;
  ExportOptions options;
  options.checkpoint = save_model("bert", model);
  options.to = folder_ / "out";
  options.precision = DType::bf16;
  const ExportReport report = export_model(options);
  ASSERT_EQ(report.notes.size(), 3u);
  EXPECT_NE(report.notes[0].find("model.bias is false"), std::string::npos);
  EXPECT_NE(report.notes[1].find("model.token_types is 0"), std::string::npos);
  EXPECT_NE(report.notes[2].find("the last 3 of the 56 rows"), std::string::npos);
  EXPECT_EQ(config_of(options.to).at("dtype"), "bfloat16");
  EXPECT_EQ(config_of(options.to).at("type_vocab_size"), 2);

  const SafetensorsFile file(options.to / "model.safetensors");
  EXPECT_EQ(file.entry("cls.predictions.bias").dtype, DType::bf16);
  // Compares after import, which widens exactly.
  const FileTensors ours = weights_of(folder_ / "bert/checkpoints/step_00000003");
  const FileTensors back = weights_of(import_folder(options.to, "back").checkpoint);
  for (const auto& [name, tensor] : back) {
    const auto original = ours.find(name);
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      const float expected =
          original == ours.end() ? 0.0f : float(bfloat16(original->second.values[i]));
      ASSERT_EQ(tensor.values[i], expected) << name;
    }
  }
}

TEST_F(HuggingFaceExport, ReplacesEarlierExportOnlyOnRequest) {
  const std::string run = save_model("gpt", small_gpt());
  const fs::path out = export_run(run, "out", 3000);
  expect_error([&] { export_run(run, "out"); }, {"out already exists", "--overwrite"});
  ExportOptions options;
  options.checkpoint = run;
  options.to = out.string() + "/";
  options.overwrite = true;
  export_model(options);
  EXPECT_TRUE(fs::exists(out / "model.safetensors"));
  EXPECT_FALSE(fs::exists(out / "model.safetensors.index.json"));

  write_file(out / "notes.txt", "mine");
  expect_error([&] { export_model(options); }, {"holds notes.txt", "nothing was deleted"});
  fs::remove(out / "notes.txt");
  fs::create_directory(out / "config.json.d");
  expect_error([&] { export_model(options); }, {"holds config.json.d"});
  fs::remove(out / "config.json.d");
  options.to = folder_ / "vocab.txt";
  expect_error([&] { export_model(options); }, {"vocab.txt exists and is not a folder"});
  options.to = "/";
  expect_error([&] { export_model(options); }, {"is not the path of a folder"});
}

TEST_F(HuggingFaceExport, ReplacesOnlyEarlierExports) {
  ExportOptions options;
  options.checkpoint = save_model("gpt", small_gpt());
  options.overwrite = true;
  const auto refused = [&](const fs::path& folder, std::initializer_list<const char*> facts) {
    options.to = folder;
    expect_error([&] { export_model(options); }, facts);
  };
  const fs::path out = export_run(options.checkpoint, "out", 3000);
  write_file(out / "README.md", "mine");
  refused(out, {"holds README.md, which no export writes: nothing was deleted"});
  EXPECT_EQ(read_file(out / "README.md"), "mine");

  // Python has fine-tuned the export and saved over it.
  const fs::path saved_over = export_run(options.checkpoint, "saved_over");
  const FileTensors tensors = read_tensors(saved_over / "model.safetensors");
  write_tensors(saved_over / "model.safetensors", tensors);
  refused(saved_over, {"holds model.safetensors, which was not written by"});
  write_file(saved_over / "model.safetensors", "damaged");
  refused(saved_over, {"holds model.safetensors, which was not written by"});
  fs::remove(saved_over / "model.safetensors");
  refused(saved_over, {"holds no weights of an earlier export"});
  fs::create_symlink(out / "config.json", saved_over / "vocab.json");
  refused(saved_over, {"holds vocab.json"});

  options.to = folder_ / "empty";
  fs::create_directory(options.to);
  EXPECT_NO_THROW(export_model(options));
}

TEST_F(HuggingFaceExport, ErrorsLeaveFilesUnchanged) {
  const std::string run = save_model("gpt", small_gpt());
  const fs::path out = export_run(run, "out");
  const std::string before = read_file(out / "model.safetensors");
  const fs::path weights = fs::path(run) / "checkpoints/step_00000003/model_00000.safetensors";
  std::string damaged = read_file(weights);
  damaged[damaged.size() - 5] ^= 1;
  write_file(weights, damaged);
  ExportOptions options;
  options.checkpoint = weights.parent_path();
  options.to = out;
  options.overwrite = true;
  expect_error([&] { export_model(options); }, {"is damaged"});
  EXPECT_EQ(read_file(out / "model.safetensors"), before);
  options.to = folder_ / "new/deep";
  expect_error([&] { export_model(options); }, {"is damaged"});
  EXPECT_FALSE(fs::exists(options.to));
  EXPECT_TRUE(fs::is_empty(folder_ / "new"));
  for (const std::string& name : folder_.names()) EXPECT_NE(name.front(), '.') << name;

  ModelConfig window = small_gpt();
  window.attention_window = 3;
  expect_error([&] { export_run(save_model("window", window), "none"); },
               {"model.attention_window is 3"});
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_F(HuggingFaceExport, KeepsProblemType) {
  ModelConfig sets = small_classifier(), number = small_encoder(ModelKind::roberta);
  sets.problem_type = ProblemType::multi_label_classification;
  number.head = Head::classification;
  number.problem_type = ProblemType::regression;
  number.num_labels = 1;
  for (const auto& [name, model] : {std::pair("sets", sets), std::pair("number", number)}) {
    const fs::path out = export_run(save_model(name, model), std::string(name) + "_out");
    const Json config = config_of(out);
    EXPECT_EQ(config.at("problem_type"), problem_type_name(model.problem_type));
    const ImportReport report = import_folder(out, std::string(name) + "_back");
    const Json saved = Checkpoint::open(report.checkpoint).manifest().model;
    EXPECT_EQ(saved.at("problem_type"), problem_type_name(model.problem_type));
    EXPECT_EQ(saved.at("num_labels"), model.num_labels);
  }
  // `transformers` trains one label without a problem type as a regression.
  set_config(folder_ / "number_out", "problem_type", nullptr);
  const ImportReport report = import_folder(folder_ / "number_out", "number_again");
  EXPECT_EQ(Checkpoint::open(report.checkpoint).manifest().model.at("problem_type"), "regression");
}

TEST_F(HuggingFaceExport, KeepsLabelNames) {
  const fs::path out = export_run(
      save_model("labels", small_classifier(), "", {{"labels", "good, bad,so-so"}}), "out");
  const Json config = config_of(out);
  EXPECT_EQ(config.at("id2label"), Json({{"0", "good"}, {"1", "bad"}, {"2", "so-so"}}));
  EXPECT_EQ(config.at("label2id").at("so-so"), 2);
  EXPECT_EQ(config.at("problem_type"), "single_label_classification");
  const ImportReport report = import_folder(out, "back");
  EXPECT_EQ(report.labels, (std::vector<std::string>{"good", "bad", "so-so"}));
  EXPECT_EQ(Checkpoint::open(report.checkpoint).manifest().extra.at("labels"), "good,bad,so-so");
  // Default names count as no names.
  const fs::path unnamed = export_run(save_model("unnamed", small_classifier()), "unnamed_out");
  EXPECT_EQ(config_of(unnamed).at("id2label").at("2"), "LABEL_2");
  const ImportReport defaults = import_folder(unnamed, "unnamed_back");
  EXPECT_TRUE(defaults.labels.empty());
  EXPECT_TRUE(defaults.notes.empty());
  set_config(unnamed, "id2label", {{"0", "a,b"}, {"1", "c"}, {"2", "d"}});
  const ImportReport comma = import_folder(unnamed, "comma_back");
  EXPECT_TRUE(comma.labels.empty());
  ASSERT_EQ(comma.notes.size(), 1u);
  EXPECT_NE(comma.notes[0].find("instead of their names in \"id2label\": \"a,b\" has a comma"),
            std::string::npos);
  set_config(unnamed, "id2label", {{"0", "a\tb"}, {"1", "c"}, {"2", "d"}});
  const ImportReport tab = import_folder(unnamed, "tab_back");
  EXPECT_TRUE(tab.labels.empty());
  EXPECT_NE(tab.notes.at(0).find("a control character"), std::string::npos);
  set_config(unnamed, "id2label", {{"0", "c"}, {"1", "c"}, {"2", "d"}});
  EXPECT_NE(import_folder(unnamed, "twice_back").notes.at(0).find("label names must be different"),
            std::string::npos);
}

TEST(InteropByteSize, ParsesUnits) {
  EXPECT_EQ(parse_byte_size("5GB"), 5'000'000'000);
  EXPECT_EQ(parse_byte_size("500 MB"), 500'000'000);
  EXPECT_EQ(parse_byte_size("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(parse_byte_size("1000"), 1000);
  for (const char* bad : {"", "GB", "0", "-1GB", "1.5GB", "5 gb", "9999999999TB", "5GB ", "1e9"}) {
    expect_error([&] { parse_byte_size(bad); }, {"is not a size", "as 5GB"});
  }
}

}  // namespace
}  // namespace tessera
