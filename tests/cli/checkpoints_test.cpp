#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

class CliCheckpoints : public SmallRun {
 protected:
  /// Leaves the checkpoints of steps 3 and 6.
  void train_a_while() const {
    expect_success(run_train(2, "run", {"checkpoint.interval=3", "--stop-at=6"}));
    ASSERT_EQ(checkpoints("run").size(), 2u);
  }

  fs::path step(int number) const {
    return path("run") / "checkpoints" / fmt::format("step_{:08}", number);
  }

  /// Flips a bit in the middle of each tensor file and attachment of a checkpoint.
  static void damage(const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename() == "manifest.json") continue;
      std::string bytes = read_text(entry.path());
      bytes[bytes.size() / 2] ^= 1;
      write_text(entry.path(), bytes);
    }
  }

  /// The contents of all files in the run's folder, by path.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(path("run"))) {
      if (entry.is_regular_file()) files[entry.path().string()] = read_text(entry.path());
    }
    return files;
  }

  void expect_run_refused(const Arguments& overrides, const Arguments& facts) const {
    const auto before = files();
    for (const int ranks : {kAlone, 2}) {
      expect_refused(run_train(ranks, "run", overrides), facts);
      EXPECT_TRUE(files() == before) << "files have changed";
    }
  }
};

TEST_F(CliCheckpoints, ReportsSkippedDamagedCheckpoint) {
  train_a_while();
  damage(step(6));
  const Outcome resumed = run_train(2, "run", {"checkpoint.keep=0"});
  expect_success(resumed);
  EXPECT_EQ(resumed.count("warning: step_00000006: damaged"), 1u) << resumed.output;
  EXPECT_EQ(resumed.count("(step 3, 24 samples seen)"), 1u) << resumed.output;
  EXPECT_EQ(losses("run").size(), static_cast<size_t>(kSteps));
}

TEST_F(CliCheckpoints, ReportsSkippedTruncatedCheckpoint) {
  train_a_while();
  fs::resize_file(step(6) / "manifest.json", 100);
  const Outcome verified = run(tessera(2, {"verify", path("run").string()}));
  expect_refused(verified,
                 {"step_00000006: damaged", "step_00000003: intact", "1 of 2 checkpoints"});
  const Outcome resumed = run_train(kAlone, "run");
  expect_success(resumed);
  EXPECT_EQ(resumed.count("warning: step_00000006: damaged"), 1u) << resumed.output;
}

// With a learning rate of 0, no evaluation is better than the first one.
TEST_F(CliCheckpoints, KeepsTheBestAndEndsEarly) {
  const Arguments overrides = {"optimizer.lr=0",    "data.eval=" + dataset(),
                               "eval.interval=2",   "eval.batches=1",
                               "eval.patience=3",   "checkpoint.interval=2",
                               "checkpoint.keep=1", "checkpoint.keep_best=true"};
  const std::string why =
      "the run ends after step 8: the last 3 evaluations were no better than that of step 2";
  const auto expect_end = [&](const std::string& name) {
    const Outcome outcome = run_train(2, name, overrides);
    expect_success(outcome);
    EXPECT_EQ(outcome.count(why), 1u) << outcome.output;
    EXPECT_EQ(checkpoints(name), (std::vector<std::string>{"step_00000002", "step_00000008"}));
  };
  expect_end("run");
  expect_end("run");  // again
  const Outcome listed = run(tessera(kAlone, {"runs", path("run").string()}));
  EXPECT_EQ(listed.count(" finished "), 1u) << listed.output;

  // Stops between evaluations change nothing.
  for (const int stop : {1, 3, 5}) {
    Arguments stopped = overrides;
    stopped.push_back(fmt::format("--stop-at={}", stop));
    const Outcome outcome = run_train(2, "stopped", stopped);
    expect_success(outcome);
    EXPECT_EQ(outcome.count("the run ends"), 0u) << outcome.output;
  }
  expect_end("stopped");
}

// As a decay branches off a run with a constant learning rate.
TEST_F(CliCheckpoints, BranchesOffWithAllState) {
  expect_success(run_train(2, "trunk", {"checkpoint.interval=5"}));
  const std::string from = (path("trunk") / "checkpoints/step_00000010").string();
  const Arguments branch = {"checkpoint.from=" + from, "checkpoint.from_state=true"};
  const Outcome outcome = run_train(kAlone, "branch", branch);
  expect_success(outcome);
  EXPECT_EQ(outcome.count("continues the run of " + from + " (step 10, "), 1u) << outcome.output;
  std::map<int64_t, double> rest = losses("trunk");
  rest.erase(rest.begin(), rest.upper_bound(10));
  expect_near(losses("branch"), rest);
  const Outcome again = run_train(kAlone, "branch", branch);
  EXPECT_EQ(again.count("resumed from " + (path("branch") / "checkpoints").string()), 1u)
      << again.output;
  expect_refused(run(tessera(kAlone, {"replay", path("branch").string(), "--step", "7"})),
                 {"the run began with step 11", from});
}

TEST_F(CliCheckpoints, OverwritesNothingWhenAllAreDamaged) {
  train_a_while();
  damage(step(3));
  damage(step(6));
  const std::string folder = (path("run") / "checkpoints").string();
  for (const char* resume : {"auto", "required"}) {
    expect_run_refused({fmt::format("checkpoint.resume={}", resume)},
                       {folder + " holds 2 checkpoints, all damaged", "step_00000003: damaged"});
  }
  expect_refused(run(tessera(2, {"generate", path("run").string(), "--prompt", ""})),
                 {"there is no intact checkpoint in " + folder, "step_00000006: damaged"});
}

TEST_F(CliCheckpoints, RejectsRequiredResumeWithoutCheckpoint) {
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_train(ranks, "run", {"checkpoint.resume=required"}),
                   {"checkpoint.resume is required, but there is no checkpoint in "});
    EXPECT_TRUE(fs::is_empty(path("run")));
  }
}

TEST_F(CliCheckpoints, RejectsNeverResumeWithCheckpoints) {
  train_a_while();
  expect_run_refused({"checkpoint.resume=never"},
                     {"holds step_00000006, and checkpoint.resume is never"});
}

TEST_F(CliCheckpoints, RejectsDifferentModelAndShowsBothShapes) {
  train_a_while();
  expect_run_refused({"model.hidden_size=64", "model.num_layers=3"},
                     {"model.hidden_size is 32 in the checkpoint and 64 in this run",
                      "model.num_layers is 2 in the checkpoint and 3 in this run"});
}

TEST_F(CliCheckpoints, RejectsMissingStartingCheckpoint) {
  const std::string nowhere = path("nowhere").string();
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_train(ranks, "run", {"checkpoint.from=" + nowhere}),
                   {nowhere + " is not a folder"});
  }
}

TEST_F(CliCheckpoints, StopsOnNonFiniteLossAndKeepsLastCheckpoint) {
  for (const int ranks : {kAlone, 2}) {
    fs::remove_all(path("run"));
    train_a_while();
    const auto saved = read_text(step(6) / "manifest.json");
    // Weights grow by lr × weight_decay = 10¹² a step and are infinite after four.
    const Outcome outcome =
        run_train(ranks, "run", {"optimizer.lr=1e6", "optimizer.weight_decay=1e6"});
    expect_refused(outcome, {" of step ", " is NaN. Resume from an earlier checkpoint"});
    EXPECT_EQ(checkpoints("run").back(), "step_00000006");
    EXPECT_EQ(read_text(step(6) / "manifest.json"), saved);
    expect_success(run(tessera(kAlone, {"verify", path("run").string()})));
    expect_success(run_train(ranks, "run"));
  }
}

}  // namespace
}  // namespace tessera::test
