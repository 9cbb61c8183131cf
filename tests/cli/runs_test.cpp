#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class CliRuns : public SmallRun {};

TEST_F(CliRuns, ListsRunsWithTheirStates) {
  expect_success(
      run_train(kAlone, "runs/finished", {"eval.interval=10", "data.eval_fraction=0.2"}));
  expect_success(run_train(2, "runs/deeper/stopped", {"--stop-at=5"}));
  expect_refused(
      run_train(kAlone, "runs/failed", {"optimizer.lr=1e6", "optimizer.weight_decay=1e6"}), {});
  std::filesystem::create_directories(path("runs/.hidden"));
  std::filesystem::copy(path("runs/finished"), path("runs/.hidden/run"));
  std::filesystem::create_directory_symlink(path("runs/finished"), path("runs/link"));
  const Outcome outcome = run(tessera(kAlone, {"runs", path("runs").string()}));
  expect_success(outcome);
  EXPECT_THAT(outcome.output, ContainsRegex("runs/finished +finished +20/20 .* ago"));
  EXPECT_THAT(outcome.output, ContainsRegex("\\(step [12]0\\)"));
  EXPECT_THAT(outcome.output, ContainsRegex("deeper/stopped +stopped +5/20 "));
  EXPECT_THAT(outcome.output, ContainsRegex("runs/failed +failed "));
  EXPECT_EQ(outcome.count(path("runs").string()), 3u) << outcome.output;
}

TEST_F(CliRuns, WatchesALiveRun) {
  Program training(tessera(kAlone, train("runs/run", {"train.steps=1000000"})));
  ASSERT_TRUE(training.wait_for("step      10/"));
  Program watcher(tessera(kAlone, {"runs", path("runs").string(), "--watch", "1"}));
  EXPECT_TRUE(watcher.wait_for("training")) << watcher.output();
  for (const pid_t process : training.processes("tessera")) ::kill(process, SIGKILL);
  training.wait();
  EXPECT_TRUE(watcher.wait_for("died")) << watcher.output();
  for (const pid_t process : watcher.processes("tessera")) ::kill(process, SIGINT);
  expect_success(watcher.wait());
}

TEST_F(CliRuns, RefusesFoldersWithoutRuns) {
  expect_refused(run(tessera(kAlone, {"runs", path("none").string()})), {"none is not a folder"});
  expect_refused(run(tessera(kAlone, {"runs", path("").string()})), {"has no runs"});
}

}  // namespace
}  // namespace tessera::test
