// `log.timeline_steps` writes a trace file for each rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using ::testing::IsSupersetOf;
using ::testing::Not;

class TimelineFiles : public SmallRun {
 protected:
  /// The names of a rank's events. Expects this number of steps among them.
  std::set<std::string> event_names(const std::string& run, int rank, int expected_steps) const {
    const std::string file = fmt::format("timeline/rank_{}.json", rank);
    const Json json = Json::parse(read_text(path(run) / file));
    std::set<std::string> found;
    int steps = 0;
    for (const Json& event : json.at("traceEvents")) {
      found.insert(event.at("name").get<std::string>());
      steps += event.at("name") == "step" ? 1 : 0;
      EXPECT_EQ(event.at("pid"), rank);
    }
    EXPECT_EQ(steps, expected_steps);
    return found;
  }
};

TEST_F(TimelineFiles, CoverRequestedStepsOnEachRank) {
  const Outcome outcome =
      run_train(4, "run", {"parallel.tensor=2", "log.timeline_steps=2", "log.timeline_skip=3"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count("timeline of steps 4 to 5 written to"), 1u);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(event_names("run", rank, 2),
                IsSupersetOf({"blocks.0", "attention backward", "linear_backward_weight",
                              "all_reduce of gradients", "wait for all_reduce of gradients",
                              "all_reduce of forward", "adamw_step", "process_name"}));
  }
}

TEST_F(TimelineFiles, CoverCompletedStepsOfShortRun) {
  const Outcome outcome = run_train(kAlone, "run", {"log.timeline_steps=30"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count(fmt::format("timeline of steps 3 to {}", kSteps)), 1u);
  EXPECT_THAT(event_names("run", 0, kSteps - 2), Not(IsSupersetOf({"all_reduce of gradients"})));
}

TEST_F(TimelineFiles, AreNotWrittenWithoutSteps) {
  const Outcome outcome =
      run_train(kAlone, "run", {"log.timeline_steps=1", "log.timeline_skip=100"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count("no timeline was written: the run took 20 steps"), 1u);
  EXPECT_FALSE(std::filesystem::exists(path("run") / "timeline"));
}

}  // namespace
}  // namespace tessera::test
