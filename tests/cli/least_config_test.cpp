#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

/// Configurations of the fewest keys, on a text with few words.
class CliLeastConfig : public SmallRun {
 protected:
  CliLeastConfig() {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += i % 2 == 0 ? "a good day and so on\n\n" : "one bad night\n\n";
    write_text(path("text.txt"), text);
  }

  std::string file(const std::string& name) const { return path(name).string(); }

  /// Trains a tokenizer, prepares the text, and deletes the tokenizer's files.
  void prepare_text(const std::string& kind, const Arguments& options) const {
    const int ranks = kAlone;
    expect_success(run(tessera(ranks, {"tokenizer", "train", "--kind", kind, "--vocab-size", "300",
                                       "--input", file("text.txt"), "--output", file("words")})));
    Arguments prepare = {"prepare",     "--tokenizer",    kind + ":" + file("words"),
                         "--input",     file("text.txt"), "--output",
                         file("tokens")};
    prepare.insert(prepare.end(), options.begin(), options.end());
    expect_success(run(tessera(ranks, prepare)));
    fs::remove_all(path("words"));
  }

  Outcome run_yaml(int ranks, const std::string& yaml, const std::string& run_name,
                   Arguments overrides = {}) const {
    write_text(path("least.yaml"), yaml);
    overrides.push_back("run.dir=" + file(run_name));
    Arguments arguments = {"train", file("least.yaml")};
    for (const std::string& text : overrides) {
      arguments.insert(arguments.end(), {"--set", text});
    }
    return run(tessera(ranks, arguments));
  }
};

TEST_F(CliLeastConfig, TwoKeysTrainAndRunCanBeMoved) {
  prepare_text("bpe", {"--append-eod"});
  const std::string yaml =
      fmt::format("data: {{train: {}}}\ntrain: {{steps: 2}}\n", file("tokens"));
  const Outcome outcome = run_yaml(2, yaml, "run");
  expect_success(outcome);
  const std::string resolved = read_text(path("run") / "config.yaml");
  EXPECT_NE(resolved.find("  tokenizer: auto  # bpe with "), std::string::npos) << resolved;
  EXPECT_NE(resolved.find("  micro: 8  # "), std::string::npos) << "16 sequences on 2 ranks";
  EXPECT_EQ(resolved.find("vocab_size: 257"), std::string::npos)
      << "the tokenizer has fewer tokens";

  fs::rename(path("run"), path("moved"));
  for (const char* end : {".bin", ".idx", ".meta.json", ".tokenizer.json"}) {
    fs::remove(file("tokens") + end);
  }
  expect_success(run(tessera(kAlone, {"generate", file("moved"), "--prompt", "one"})));
}

TEST_F(CliLeastConfig, LabelsAndCheckpointMakeClassifier) {
  prepare_text("wordpiece", {"--documents", "paragraph"});
  const std::string bert =
      fmt::format("data: {{train: {}}}\ntrain: {{steps: 1}}\n", file("tokens"));
  expect_success(run_yaml(kAlone, bert, "bert", {"model.kind=bert", "model.num_layers=1"}));

  write_text(path("labels.tsv"), "text\tlabel\na good day\tgood\none bad night\tbad\n");
  const std::string yaml =
      fmt::format("data: {{train: {}}}\ntrain: {{steps: 2}}\ncheckpoint: {{from: {}}}\n",
                  file("labels.tsv"), file("bert"));
  expect_success(run_yaml(2, yaml, "labels"));
  fs::remove(path("labels.tsv"));
  fs::remove_all(path("bert"));
  const Outcome outcome =
      run(tessera(kAlone, {"classify", file("labels"), "--text", "a good night"}));
  expect_success(outcome);
  EXPECT_EQ(outcome.count("good"), 1U) << outcome.output;
  EXPECT_EQ(outcome.count("bad"), 1U) << outcome.output;

  write_text(path("labels.tsv"), "text\tlabel\na good day\tgood\none bad night\tbad\n");
  write_text(path("eval.tsv"), "text\tlabel\na good day\tgood\none day\tugly\n");
  const Outcome refused = run_yaml(
      2, yaml, "y", {"data.eval=" + file("eval.tsv"), "checkpoint.from=" + file("labels")});
  expect_refused(refused, {"eval.tsv:3: the label is \"ugly\""});
  expect_refused(
      run_yaml(kAlone, yaml, "z", {"checkpoint.from=" + file("labels"), "model.num_layers=2"}),
      {"num_layers", "checkpoint.from needs the same model"});
}

}  // namespace
}  // namespace tessera::test
