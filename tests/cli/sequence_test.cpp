#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliSequenceParallel : public SmallRun {
 protected:
  /// Runs `command` on the run's checkpoint.
  Outcome run_on_checkpoint(int ranks, const std::string& command, const Arguments& more) const {
    Arguments arguments = {command, path("run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }
};

TEST_F(CliSequenceParallel, MatchesSingleRankAndResumesOnAnyLayout) {
  expect_success(run_train(kAlone, "whole"));
  const Arguments sequence = {"parallel.tensor=2", "parallel.sequence=true"};
  const Outcome first =
      run_train(4, "run", {"parallel.tensor=2", "parallel.sequence=true", "--stop-at=7"});
  expect_success(first);
  EXPECT_EQ(first.count("sequence   split over the tensor ranks outside attention and MLP\n"), 1u)
      << first.output;
  expect_success(run_train(2, "run", {"parallel.tensor=2", "--stop-at=12"}));
  expect_success(run_train(2, "run", sequence));
  expect_near(losses("run"), losses("whole"));
}

TEST_F(CliSequenceParallel, IsNotMentionedOnOneTensorRank) {
  const Outcome outcome = run_train(2, "run", {"parallel.sequence=true", "train.steps=3"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count("sequence   split"), 0u) << outcome.output;
}

TEST_F(CliSequenceParallel, LoadsCheckpointsOnAnyNumberOfRanks) {
  expect_success(run_train(2, "run",
                           {"parallel.tensor=2", "parallel.sequence=true", "data.eval_fraction=0.2",
                            "eval.interval=20"}));
  const Arguments prompt = {"--prompt", "3 times", "--temperature", "0", "--max-tokens", "30"};
  const Outcome alone = run_on_checkpoint(kAlone, "generate", prompt);
  expect_success(alone);
  EXPECT_EQ(run_on_checkpoint(2, "generate", prompt).output, alone.output);

  const auto eval_loss = [&](int ranks, const Arguments& more) {
    const Outcome outcome = run_on_checkpoint(ranks, "eval", more);
    expect_success(outcome);
    return parse_json(outcome.output, "eval --json")["loss"].get<double>();
  };
  const double loss = eval_loss(kAlone, {"--json"});
  // fp32 sums in a different order.
  EXPECT_NEAR(eval_loss(2, {"--json", "--tensor", "2"}), loss, 1e-5 * loss);

  for (const int ranks : {kAlone, 2}) {
    expect_success(run_on_checkpoint(
        ranks, "attention",
        {"--text", "3 times 4", "--output", path(fmt::format("look{}", ranks)).string()}));
  }
}

}  // namespace
}  // namespace tessera::test
