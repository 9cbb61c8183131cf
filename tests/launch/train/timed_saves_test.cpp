#include "launch/train/timed_saves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "launch/checkpoint/format/step_folder.h"
#include "launch/config/write_config.h"
#include "launch/support/text/json.h"
#include "launch/train/run_training.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using testing::ElementsAre;

using Clock = TimedSaves::Clock;

Clock::time_point at(double seconds) {
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

TEST(TimedSaves, TakesAtMostAPartOfTheTime) {
  struct Case {
    double assumed;
    std::optional<double> measured;
    double interval;
  };
  const Case cases[] = {
      {1.0, {}, 300.0},      // at most every five minutes
      {20.0, {}, 380.0},     // 5% of 400 seconds
      {1000.0, {}, 600.0},   // not known, so the first is not late
      {1000.0, 0.1, 300.0},  // cheaper than assumed
      {1.0, 60.0, 1140.0},   // one minute of twenty
  };
  for (const auto& [assumed, measured, interval] : cases) {
    SCOPED_TRACE(testing::Message() << assumed << " " << measured.value_or(-1.0));
    TimedSaves saves(true, assumed, at(0));
    if (measured) saves.saved(at(0), measured);
    EXPECT_FALSE(saves.is_due(at(interval - 1.0)));
    EXPECT_TRUE(saves.is_due(at(interval + 1.0)));
    EXPECT_FALSE(TimedSaves(false, assumed, at(0)).is_due(at(1e9)));
    saves.saved(at(1e6), std::nullopt);  // it failed
    EXPECT_FALSE(saves.is_due(at(1e6 + interval - 1.0)));
  }
}

/// Runs of 12 steps, in which the clock advances by 100 seconds each time the run looks at it: once
/// at the start, after each step and each save. So the third step after any save is due.
class TimedRun : public testing::Test {
 protected:
  TimedRun() { test::write_small_data(folder_); }

  void train(const std::vector<std::string>& keys, std::optional<int64_t> stop_at = {}) {
    RunConfig config = test::small_run(folder_, "run");
    config.train.steps = 12;
    config.automatic = {"checkpoint.interval"};
    std::ofstream(folder_ / "run.yaml") << to_yaml(config, {});
    TrainOptions options{folder_ / "run.yaml", keys, stop_at};
    options.overrides.emplace_back("checkpoint.background=false");
    RunHooks hooks;
    hooks.now = [this, looks = 0]() mutable {
      ++looks;
      if (look) look(looks);
      return at(100.0 * looks);
    };
    const auto world = make_self_communicator();
    run_training(options, *world, hooks);
  }

  std::filesystem::path run() const { return folder_ / "run"; }

  std::vector<int64_t> checkpoints() const {
    std::vector<int64_t> steps;
    for (const StepFolder& step : step_folders(checkpoints_folder(run()))) {
      steps.insert(steps.begin(), step.step);
    }
    return steps;
  }

  /// The steps that were saved, in order.
  std::vector<int64_t> saves() const {
    std::vector<int64_t> steps;
    std::ifstream file(run() / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const Json json = parse_json(line, "metrics.jsonl");
      if (json.contains("save_seconds")) steps.push_back(json.at("step"));
    }
    return steps;
  }

  test::TestFolder folder_;
  std::function<void(int)> look;
};

TEST_F(TimedRun, SavesAndKeepsOnlyTheNewest) {
  train({});
  EXPECT_THAT(saves(), ElementsAre(3, 6, 9, 12));
  EXPECT_THAT(checkpoints(), ElementsAre(12));
}

TEST_F(TimedRun, KeepsWhatWasNotSavedByTime) {
  train({}, 5);
  EXPECT_THAT(checkpoints(), ElementsAre(5));
  train({});
  EXPECT_THAT(saves(), ElementsAre(3, 5, 8, 11, 12));
  EXPECT_THAT(checkpoints(), ElementsAre(5, 12));
}

TEST_F(TimedRun, CountsLikeOthersForKeep) {
  train({"checkpoint.keep=2"});
  EXPECT_THAT(checkpoints(), ElementsAre(9, 12));
}

TEST_F(TimedRun, DoesNotSaveWithAnIntervalInSteps) {
  train({"checkpoint.interval=0"});
  EXPECT_THAT(saves(), ElementsAre(12));
  std::filesystem::remove_all(run());
  train({"checkpoint.interval=5"});
  EXPECT_THAT(checkpoints(), ElementsAre(5, 10, 12));
}

TEST_F(TimedRun, TrainsOnIfASaveFails) {
  look = [this](int looks) {  // a file is in the way of the first two
    const std::filesystem::path folder = checkpoints_folder(run());
    if (looks == 2) std::ofstream(folder) << "x";
    if (looks == 9) std::filesystem::remove(folder);
  };
  train({});
  EXPECT_THAT(saves(), ElementsAre(9, 12));
  std::filesystem::remove_all(run());
  test::expect_error([&] { train({"checkpoint.interval=2"}); }, {"step 2 was not saved"});
}

TEST_F(TimedRun, TrainsOnWhileAnotherFolderIsInItsPlace) {
  look = [this](int looks) {
    const std::filesystem::path aside = folder_ / "aside";
    if (looks == 3) std::filesystem::rename(run(), aside);
    if (looks == 3) std::filesystem::create_directory(run());
    if (looks == 6) std::filesystem::remove_all(run());
    if (looks == 6) std::filesystem::rename(aside, run());
  };
  train({});
  EXPECT_THAT(saves(), ElementsAre(6, 9, 12));
}

TEST_F(TimedRun, SavesAtItsEarlyEndWhatASaveByTimeDidNot) {
  look = [this](int looks) {  // a file is in the way after step 3
    const std::filesystem::path folder = checkpoints_folder(run());
    if (looks == 2) std::ofstream(folder) << "x";
    if (looks == 5) std::filesystem::remove(folder);
  };
  train({"eval.interval=1", "eval.patience=3", "optimizer.lr=1e-30"});
  EXPECT_THAT(saves(), ElementsAre(4));
  EXPECT_THAT(checkpoints(), ElementsAre(4));
}

}  // namespace
}  // namespace tessera
