#include "launch/train/start/derive_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "launch/config/config_changes.h"
#include "launch/config/load_config.h"
#include "launch/config/validate.h"
#include "launch/data/prepare/prepare.h"
#include "launch/data/training_data.h"
#include "launch/train/memory/micro_batch.h"
#include "launch/train/start/start.h"
#include "launch/train/trainer.h"
#include "models/architecture.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::TestFolder;
using testing::AllOf;
using testing::HasSubstr;

/// The value of a key as YAML.
std::string value_of(const RunConfig& config, const std::string& key) {
  for (const NamedValue& value : config_values(config)) {
    if (value.name == key) return value.value;
  }
  return "no such key";
}

class DeriveConfig : public testing::Test {
 protected:
  static void ignore(const std::string&) {}

  RunConfig load(const std::string& yaml, const std::vector<std::string>& sets = {}) const {
    RunConfig config = parse_config("runs/x.yaml", yaml, sets);
    config.run.dir = folder_ / "run";
    return config;
  }

  static DerivedConfig derive(const RunConfig& config, int64_t ranks = 1) {
    return derive_config(config, ranks, DeriveFor::training, ignore);
  }

  /// The least configuration for data in the folder.
  std::string least(const std::string& data) const {
    return fmt::format("data: {{train: {}}}\ntrain: {{steps: 1}}\n", folder_ / data);
  }

  void prepare_text(const std::string& prefix, const std::string& tokenizer = "byte") const {
    write_file(folder_ / "text.txt", "a text of some words, with some words of a text\n");
    prepare({.tokenizer = tokenizer,
             .input = {.inputs = {folder_ / "text.txt"}},
             .output = folder_ / prefix});
  }

  /// Trains and saves a checkpoint as a run with this configuration would.
  static void train_and_save(DerivedConfig derived) {
    const auto self = make_self_communicator();
    const ParallelGroups groups = make_parallel_groups(*self);
    const TrainingData data = open_training_data(derived.config, derived.tokenizer);
    derive_steps(derived, data);
    Trainer trainer(derived.config, groups, data);
    trainer.initialize();
    make_run_folder(derived.config);
    write_run_config(derived.config, derived.origins);
    trainer.step();
    trainer.save();
  }

  /// train.steps of the training data.
  int64_t steps_of(const std::string& data, const std::vector<std::string>& sets) const {
    const std::string yaml = fmt::format("data: {{train: {}}}\nmodel: {{seq_length: 16}}\n", data);
    DerivedConfig derived = derive(load(yaml, sets));
    derive_steps(derived, open_training_data(derived.config, derived.tokenizer));
    EXPECT_FALSE(derived.config.automatic.contains("train.steps"));
    return derived.config.train.steps;
  }

  TestFolder folder_;
};

TEST_F(DeriveConfig, StepsFollowFromEpochs) {
  write_file(folder_ / "text.txt", std::string(165, 'x'));
  prepare({.tokenizer = "byte",
           .input = {.inputs = {folder_ / "text.txt"}},
           .output = folder_ / "data"});  // 10 samples of 16 tokens, and a few tokens
  const std::string data = folder_ / "data";
  const std::tuple<const char*, int, int64_t> cases[] = {
      {"3", 4, 8}, {"1", 10, 1}, {"1", 11, 1}, {"0.5", 2, 3}, {"2.5", 1, 25}, {"0.01", 4, 1}};
  for (const auto& [epochs, batch, steps] : cases) {
    EXPECT_EQ(steps_of(data, {fmt::format("train.epochs={}", epochs),
                              fmt::format("batch.global={}", batch)}),
              steps);
  }
  EXPECT_EQ(steps_of(data, {"train.epochs=3", "batch.global=4", "train.steps=8"}), 8);
  EXPECT_THAT(error_of([&] {
                steps_of(data, {"train.epochs=3", "train.steps=9"});
              }),
              AllOf(HasSubstr("train.steps is 9"), HasSubstr("train.epochs is 3")));
  EXPECT_THAT(error_of([&] {
                const std::string half = folder_ / "half";
                for (const char* end : {".bin", ".idx", ".meta.json", ".tokenizer.json"}) {
                  fs::copy_file(data + end, half + end);
                }
                steps_of(fmt::format("{{{}: 1, {}: 2}}", data, half), {"train.epochs=1"});
              }),
              HasSubstr("data.train blends 2 datasets"));
  // Prompts and completions, several in a row.
  std::string lines = "prompt\tcompletion\n";
  for (int i = 0; i < 12; ++i) lines += "ab\tcd\n";
  write_file(folder_ / "prompts.tsv", lines);
  DerivedConfig tuned = derive(
      load(fmt::format("data: {{train: {}}}\ntrain: {{epochs: 2}}\n", folder_ / "prompts.tsv"),
           {"data.tokenizer=byte", "model.seq_length=16", "batch.global=3"}));
  const TrainingData prompts = open_training_data(tuned.config, tuned.tokenizer);
  derive_steps(tuned, prompts);
  const int64_t rows = prompts.train->num_samples();
  EXPECT_LT(rows, 12);
  EXPECT_EQ(tuned.config.train.steps, (2 * rows + 2) / 3);
}

TEST_F(DeriveConfig, ResumedRunsKeepTheStepsOfTheirEpochs) {
  write_file(folder_ / "text.txt", std::string(165, 'x'));
  const auto prepare_again = [&] {
    prepare({.tokenizer = "byte",
             .input = {.inputs = {folder_ / "text.txt"}},
             .output = folder_ / "data",
             .overwrite = true});
  };
  prepare_again();
  const std::string data = folder_ / "data";
  const std::string yaml =
      fmt::format("data: {{train: {}}}\nmodel: {{seq_length: 16}}\ntrain: {{epochs: 3}}\n", data);
  train_and_save(derive(load(yaml, {"batch.global=4", "batch.micro=4"})));  // one step of 8
  EXPECT_EQ(steps_of(data, {"train.epochs=3", "batch.global=4"}), 8);
  EXPECT_EQ(steps_of(data, {"train.epochs=5", "batch.global=4"}), 1 + (50 - 4 + 3) / 4);
  EXPECT_EQ(steps_of(data, {"train.epochs=3", "batch.global=10"}), 1 + (30 - 4 + 9) / 10);
  EXPECT_THAT(error_of([&] {
                steps_of(data, {"train.epochs=5", "batch.global=4", "train.steps=8"});
              }),
              HasSubstr("train.steps is 8, but train.epochs is 5"));
  write_file(folder_ / "text.txt", std::string(400, 'x'));
  prepare_again();
  EXPECT_EQ(steps_of(data, {"train.epochs=3", "batch.global=4"}), 8) << "more data has arrived";
}

TEST_F(DeriveConfig, LeastConfigurationUsesTokenizerOfDataset) {
  prepare_text("data");
  const DerivedConfig derived = derive(load(least("data")));
  EXPECT_EQ(derived.config.model.vocab_size, 257);
  EXPECT_EQ(derived.tokenizer->kind(), "byte");
  EXPECT_EQ(derived.config.automatic,
            (std::set<std::string, std::less<>>{"batch.micro", "checkpoint.interval",
                                                "data.tokenizer", "run.walltime"}));
  EXPECT_THAT(derived.origins.at("data.tokenizer"), HasSubstr("byte with 257 tokens"));
  EXPECT_NO_THROW(validate(derived.config, 1));
}

TEST_F(DeriveConfig, DatasetCanBeMovedWithItsTokenizer) {
  test::write_vocabulary(folder_ / "vocab.txt", 40);
  prepare_text("data", "wordpiece:" + (folder_ / "vocab.txt"));
  fs::remove(folder_ / "vocab.txt");
  fs::create_directory(folder_ / "moved");
  for (const char* end : {".bin", ".idx", ".meta.json", ".tokenizer.json"}) {
    fs::rename(folder_ / "data" + end, folder_ / "moved/data" + end);
  }
  EXPECT_EQ(derive(load(least("moved/data"), {"model.kind=bert"})).config.model.vocab_size, 40);
}

TEST_F(DeriveConfig, ReportsWhatIsMissing) {
  EXPECT_THAT(error_of([&] { derive(load(least("none"))); }), HasSubstr("none.bin"));
  prepare_text("data");
  fs::remove(folder_ / "data.tokenizer.json");
  EXPECT_THAT(
      error_of([&] { derive(load(least("data"))); }),
      AllOf(HasSubstr("data.tokenizer.json does not exist"), HasSubstr("set data.tokenizer")));
  EXPECT_EQ(derive(load(least("data"), {"data.tokenizer=byte"})).config.model.vocab_size, 257);
  const RunConfig given = load(least("data"), {"model.vocab_size=300"});
  EXPECT_NO_THROW(derive_config(given, 1, DeriveFor::planning, ignore));
  write_file(folder_ / "x.tsv", "text\tlabel\na\tb\nc\td\n");
  EXPECT_THAT(error_of([&] { derive(load(least("x.tsv"), {"model.kind=bert"})); }),
              AllOf(HasSubstr("data.tokenizer is auto"), HasSubstr("checkpoint.from")));
}

TEST_F(DeriveConfig, PromptsArePackedAndUseTheTokenizerOfTheModel) {
  write_file(folder_ / "p.jsonl", R"({"prompt": "a", "completion": "b"})");
  EXPECT_THAT(error_of([&] { derive(load(least("p.jsonl"))); }),
              AllOf(HasSubstr("data.tokenizer is auto, but prompts and completions have no"),
                    HasSubstr("checkpoint.from")));
  const DerivedConfig derived = derive(load(least("p.jsonl"), {"data.tokenizer=byte"}));
  EXPECT_EQ(derived.config.data.packing, Packing::documents);
  EXPECT_THAT(derived.origins.at("data.packing"), HasSubstr("the examples in "));
  EXPECT_EQ(derived.config.model.vocab_size, 257);

  prepare_text("data");
  const DerivedConfig pretrained =
      derive(load(least("data"), {"model.seq_length=16", "batch.micro=4"}));
  EXPECT_EQ(pretrained.config.data.packing, Packing::concatenate);
  const std::string blend = fmt::format("{{{}: 1, {}: 1}}", folder_ / "p.jsonl", folder_ / "data");
  const DerivedConfig blended = derive(load(least("data"), {"data.train=" + blend}));
  EXPECT_EQ(blended.config.data.packing, Packing::documents);
  EXPECT_EQ(blended.tokenizer->kind(), "byte");

  train_and_save(pretrained);
  RunConfig tuned =
      load(least("p.jsonl"), {"checkpoint.from=" + (folder_ / "run"), "data.truncate=true"});
  tuned.run.dir = folder_ / "tuned";
  const DerivedConfig from = derive(tuned);
  EXPECT_EQ(from.tokenizer->kind(), "byte");
  EXPECT_NO_THROW(open_training_data(from.config, from.tokenizer));
}

TEST_F(DeriveConfig, IdsNeedAVocabularySize) {
  PrepareOptions options;
  options.tokenizer = "none";
  options.vocab_size = 70;
  write_file(folder_ / "ids.txt", "1 2 3 69\n");
  options.input.inputs = {folder_ / "ids.txt"};
  options.output = folder_ / "ids";
  prepare(options);
  const DerivedConfig derived = derive(load(least("ids")));
  EXPECT_EQ(derived.config.model.vocab_size, 70);
  EXPECT_EQ(derived.origins.at("model.vocab_size"), "the dataset's");
  EXPECT_EQ(derived.origins.at("data.tokenizer"), "none (ids 0 to 69), from " + (folder_ / "ids"));

  const std::string none = "data.tokenizer=none";
  for (const DeriveFor purpose : {DeriveFor::training, DeriveFor::planning}) {
    EXPECT_THAT(error_of([&] { derive_config(load(least("ids"), {none}), 1, purpose, ignore); }),
                AllOf(HasSubstr("model.vocab_size is auto, but data.tokenizer is none"),
                      HasSubstr("checkpoint.from")));
    const RunConfig t5 = load(least("ids"), {none, "model.kind=t5"});
    EXPECT_THAT(error_of([&] { derive_config(t5, 1, purpose, ignore); }),
                HasSubstr("the largest id + 1 + 100 (span_corruption.sentinels) or more"));
    const RunConfig given = load(least("ids"), {none, "model.vocab_size=300"});
    const DerivedConfig found = derive_config(given, 1, purpose, ignore);
    EXPECT_EQ(found.config.model.vocab_size, 300);
    EXPECT_EQ(found.config.data.tokenizer, "none");
  }
}

TEST_F(DeriveConfig, RejectsTokenizerOfAnotherDataset) {
  prepare_text("data");
  test::write_vocabulary(folder_ / "vocab.txt", 40);
  prepare_text("other", "wordpiece:" + (folder_ / "vocab.txt"));
  fs::copy_file(folder_ / "other.tokenizer.json", folder_ / "data.tokenizer.json",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(error_of([&] { derive(load(least("data"))); }),
              AllOf(HasSubstr("wordpiece with 40 tokens"), HasSubstr("byte with 257 tokens"),
                    HasSubstr("belongs to another dataset")));
}

/// A file of labels, and what a run derives from it.
struct LabelCase {
  std::string file, content, labels, count;
  std::string problem_type = "single_label_classification";
};

TEST_F(DeriveConfig, FindsLabels) {
  const LabelCase cases[] = {
      {"names.tsv", "text\tlabel\nx\tgood\ny\tbad\nz\tgood\n", "\"bad,good\"", "2"},
      {"numbers.tsv", "label\ttext\n1\tx\n0\ty\n2\tz\n", "null", "3"},
      {"stars.tsv", "text\tlabel\nx\t1\ny\t5\n", "\"1,5\"", "2"},
      {"names.jsonl", "{\"text\":\"x\",\"label\":\"b\"}\n{\"text\":\"y\",\"label\":\"a\"}\n",
       "\"a,b\"", "2"},
      {"numbers.jsonl", "{\"text\":\"x\",\"label\":3}\n{\"text\":\"y\",\"label\":0}\n", "null",
       "4"},
      {"sets.tsv", "text\tlabels\nx\tgood|new\ny\t\nz\tbad\n", "\"bad,good,new\"", "3",
       "multi_label_classification"},
      {"sets.jsonl", "{\"text\":\"x\",\"labels\":[1,3]}\n", "null", "4",
       "multi_label_classification"},
      {"values.tsv", "text\tlabel\nx\t1.5\ny\t2\n", "null", "1", "regression"},
  };
  test::write_vocabulary(folder_ / "vocab.txt", 40);
  const std::vector<std::string> bert = {"model.kind=bert",
                                         "data.tokenizer=wordpiece:" + (folder_ / "vocab.txt")};
  for (const LabelCase& one : cases) {
    SCOPED_TRACE(one.file);
    write_file(folder_ / one.file, one.content);
    std::vector<std::string> keys = bert;
    keys.push_back("model.problem_type=" + one.problem_type);
    const RunConfig config = derive(load(least(one.file), keys)).config;
    EXPECT_EQ(config.model.head, Head::classification);
    EXPECT_EQ(value_of(config, "data.labels"), one.labels);
    EXPECT_EQ(value_of(config, "model.num_labels"), one.count);
    EXPECT_NO_THROW(validate(config, 1));
  }
  std::vector<std::string> words = bert;
  words.emplace_back("model.head=token_classification");
  write_file(folder_ / "words.tsv", "x\tO\ny\tB-X\n\nz\tI-X\n");
  const RunConfig of_words = derive(load(least("words.tsv"), words)).config;
  EXPECT_EQ(of_words.data.labels, "B-X,I-X,O");
  EXPECT_EQ(of_words.model.num_labels, 3);
  write_file(folder_ / "search.tsv", "anchor\tpositive\tnegative\nx\ty\tz\n");
  const RunConfig of_search = derive(load(least("search.tsv"), bert)).config;
  EXPECT_EQ(of_search.model.head, Head::embedding);
  EXPECT_TRUE(of_search.model.hard_negatives);
  EXPECT_EQ(of_search.model.num_labels, 0);
  EXPECT_NO_THROW(validate(of_search, 1));
  write_file(folder_ / "search.jsonl", "{\"anchor\":\"x\",\"positive\":\"y\"}\n");
  const RunConfig of_pairs = derive(load(least("search.jsonl"), bert)).config;
  EXPECT_EQ(of_pairs.model.head, Head::embedding);
  EXPECT_FALSE(of_pairs.model.hard_negatives);
  const auto error = [&](const std::string& content) {
    write_file(folder_ / "bad.jsonl", content);
    return error_of([&] { derive(load(least("bad.jsonl"), bert)); });
  };
  EXPECT_THAT(error("{\"text\":\"x\",\"label\":1}\n{\"text\":\"y\",\"label\":\"a\"}\n"),
              AllOf(HasSubstr("bad.jsonl:2:"), HasSubstr("earlier lines have numbers")));
  EXPECT_THAT(error("{\"text\":\"x\",\"label\":\"a\"}\n"), HasSubstr("the same label"));
  EXPECT_THAT(error("{\"text\":\"x\",\"label\":-1}\n"), HasSubstr("the label is -1"));
  EXPECT_THAT(error("{\"text\":\"x\",\"label\":\"a,b\"}\n{\"text\":\"y\",\"label\":\"c\"}\n"),
              HasSubstr("comma"));
  EXPECT_THAT(error(""), HasSubstr("there is no text"));
}

TEST_F(DeriveConfig, ModelComesFromCheckpoint) {
  test::write_vocabulary(folder_ / "vocab.txt", 40);
  prepare_text("data", "wordpiece:" + (folder_ / "vocab.txt"));
  RunConfig small =
      load(least("data"), {"model.kind=bert", "model.num_layers=1", "model.hidden_size=16",
                           "model.num_heads=2", "model.seq_length=16", "model.token_types=2"});
  small.run.dir = folder_ / "bert";
  DerivedConfig trained = derive(small);
  trained.config.automatic.erase("batch.micro");
  trained.config.batch.micro = 2;
  train_and_save(trained);
  fs::rename(folder_ / "bert", folder_ / "moved");  // a run is used wherever it is

  write_file(folder_ / "x.tsv", "text\tlabel\na\tgood\nc\tbad\n");
  const std::string from = "checkpoint.from=" + (folder_ / "moved");
  const DerivedConfig derived = derive(load(least("x.tsv"), {from}));
  ModelConfig expected = trained.config.model;
  expected.head = Head::classification;
  expected.num_labels = 2;
  expected.mlp_size = 64;
  expected.num_kv_heads = expected.num_heads;
  expected.head_dim = expected.hidden_size / expected.num_heads;
  expected.norm_position = NormPosition::post;
  EXPECT_EQ(derived.config.model, expected);
  EXPECT_EQ(derived.config.data.labels, "bad,good");
  EXPECT_THAT(derived.origins.at("data.tokenizer"), HasSubstr("moved/checkpoints"));
  EXPECT_NO_THROW(validate(derived.config, 1));
  EXPECT_EQ(derive(load(least("x.tsv"), {from, "model.num_layers=3"})).config.model.num_layers, 3)
      << "a given key stays, and the start refuses it";
}

TEST_F(DeriveConfig, ResumedRunKeepsItsValues) {
  prepare_text("data");
  DerivedConfig first = derive(load(least("data"), {"model.num_layers=1", "model.hidden_size=16",
                                                    "model.num_heads=2", "model.seq_length=8"}));
  first.config.automatic.erase("batch.micro");
  first.config.batch.micro = 8;
  train_and_save(first);
  test::write_vocabulary(folder_ / "vocab.txt", 40);
  for (const char* end : {".bin", ".idx", ".meta.json", ".tokenizer.json"}) {
    fs::remove(folder_ / "data" + end);
  }
  prepare_text("data", "wordpiece:" + (folder_ / "vocab.txt"));

  const DerivedConfig resumed = derive(load(least("data")), 2);
  EXPECT_EQ(resumed.config.model.vocab_size, 257);
  EXPECT_EQ(resumed.tokenizer->kind(), "byte");
  EXPECT_EQ(resumed.config.batch.micro, 8);
  // 16 sequences on 4 data ranks have no micro-batch of 8.
  EXPECT_TRUE(derive(load(least("data")), 4).config.automatic.contains("batch.micro"));
  // The run's config.yaml gives the 8, and the user another one.
  run_thread_ranks(4, [&](Communicator& world) {
    const RunConfig given = load(least("data"), {"batch.micro=8"});
    EXPECT_TRUE(derive_config(given, world, ignore).config.automatic.contains("batch.micro"));
  });
  EXPECT_FALSE(
      derive(load(least("data"), {"batch.micro=8"}), 2).config.automatic.contains("batch.micro"));
  EXPECT_FALSE(
      derive(load(least("data"), {"batch.micro=16"}), 4).config.automatic.contains("batch.micro"));
}

TEST_F(DeriveConfig, IsTheSameOnAllRanks) {
  test::write_vocabulary(folder_ / "vocab.txt", 40);
  prepare_text("data", "wordpiece:" + (folder_ / "vocab.txt"));
  const RunConfig config = load(least("data"), {"model.kind=bert"});
  run_thread_ranks(3, [&](Communicator& world) {
    const DerivedConfig derived = derive_config(config, world, ignore);
    EXPECT_EQ(derived.config.model.vocab_size, 40);
    ASSERT_NE(derived.tokenizer, nullptr);
    EXPECT_EQ(derived.tokenizer->kind(), "wordpiece");
    EXPECT_EQ(derived.config.automatic.size(), 4U);
  });
}

TEST(MicroBatch, IsLargestPowerOfTwoThatDividesAndFits) {
  RunConfig config;
  config.model.seq_length = 128;
  const auto choose = [&](int64_t global, int64_t data_ranks, int64_t most, Device device = kCpu) {
    config.batch.global = global;
    return choose_micro_batch(config, data_ranks, device,
                              [&](int64_t micro) { return micro <= most; });
  };
  EXPECT_EQ(choose(16, 2, 100).size, 8);
  EXPECT_EQ(choose(24, 2, 100).size, 4);
  EXPECT_EQ(choose(9, 3, 100).size, 1);
  EXPECT_EQ(choose(16, 2, 3).size, 2);
  EXPECT_EQ(choose(16, 2, 0).size, 1);
  EXPECT_THAT(choose(16, 2, 3).reason, HasSubstr("do not fit"));
  EXPECT_EQ(choose(1024, 1, 1024).size * 128, 2048);
  EXPECT_EQ(choose(1024, 1, 1024, {DeviceType::cuda, 0}).size * 128, 16384);
}

}  // namespace
}  // namespace tessera
