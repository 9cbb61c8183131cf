#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/dtype.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/huggingface/model_class.h"
#include "launch/support/text/byte_size.h"
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
