#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

class CliBackgroundSave : public SmallRun {
 protected:
  /// The bytes of all files of a run's checkpoints, by name.
  std::map<std::string, std::string> checkpoint_files(const std::string& run) const {
    std::map<std::string, std::string> files;
    const fs::path folder = path(run) / "checkpoints";
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      files[fs::relative(entry.path(), folder).string()] = read_text(entry.path());
    }
    return files;
  }

  /// The lines of metrics.jsonl that have a key.
  std::vector<Json> lines_with(const std::string& run, const char* key) const {
    std::vector<Json> found;
    std::istringstream lines(read_text(path(run) / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json json = parse_json(line, "metrics.jsonl");
      if (json.contains(key)) found.push_back(json);
    }
    return found;
  }
};

TEST_F(CliBackgroundSave, MatchesForegroundSaveAndReportsTimes) {
  for (const int ranks : {kAlone, 4}) {
    const Arguments overrides = {"parallel.tensor=" + std::string(ranks == 4 ? "2" : "1"),
                                 "checkpoint.interval=3", "--stop-at=11"};
    Arguments foreground = overrides;
    foreground.emplace_back("checkpoint.background=false");
    const Outcome in_background = run_train(ranks, "background", overrides);
    expect_success(in_background);
    expect_success(run_train(ranks, "foreground", foreground));
    EXPECT_EQ(in_background.count("checkpoint copy"), 1u) << in_background.output;
    EXPECT_EQ(in_background.count(" in the background)"), 3u) << in_background.output;
    EXPECT_EQ(in_background.count("(training waited "), 4u) << in_background.output;
    EXPECT_TRUE(checkpoint_files("background") == checkpoint_files("foreground"));
    for (const char* run : {"background", "foreground"}) {
      std::vector<int64_t> steps;
      for (const Json& line : lines_with(run, "save_seconds")) {
        steps.push_back(line["step"]);
        EXPECT_GT(line["save_seconds"].get<double>(), 0.0);
        const bool has_work = line["save_background_seconds"].get<double>() > 0.0;
        EXPECT_EQ(has_work, std::string(run) == "background" && line["step"] != 11) << line;
      }
      EXPECT_EQ(steps, (std::vector<int64_t>{3, 6, 9, 11}));
      for (const Json& line : lines_with(run, "loss")) {
        EXPECT_GE(line["data_wait_seconds"].get<double>(), 0.0);
      }
      fs::remove_all(path(run));
    }
  }
}

TEST_F(CliBackgroundSave, KeepsEveryConsecutiveSave) {
  const Outcome outcome = run_train(2, "run", {"checkpoint.interval=1"});
  expect_success(outcome);
  EXPECT_EQ(checkpoints("run").size(), static_cast<size_t>(kSteps));
  // Each save but the first finds the previous one still in progress.
  EXPECT_EQ(outcome.count(" until the checkpoint of step "), static_cast<size_t>(kSteps - 1))
      << outcome.output;
  const Outcome verified = run(tessera(kAlone, {"verify", path("run").string()}));
  expect_success(verified);
  EXPECT_EQ(verified.count(": intact"), static_cast<size_t>(kSteps));
}

// Weights grow by lr × weight_decay = 10¹² a step: the first step is saved, and a step soon after
// it fails.
TEST_F(CliBackgroundSave, CompletesWhenRunFails) {
  const Outcome outcome = run_train(
      2, "run", {"checkpoint.interval=1", "optimizer.lr=1e6", "optimizer.weight_decay=1e6"});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_EQ(outcome.count("was not saved"), 0u) << outcome.output;
  ASSERT_FALSE(checkpoints("run").empty());
  for (const std::string& name : checkpoints("run")) EXPECT_EQ(name.find('.'), std::string::npos);
  expect_success(run(tessera(kAlone, {"verify", path("run").string()})));
}

}  // namespace
}  // namespace tessera::test
