#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliSequence : public SmallRun {
 protected:
  /// `command` on the run's checkpoint.
  Outcome asked(int ranks, const std::string& command, const Arguments& more) const {
    Arguments arguments = {command, "--checkpoint", path("run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }
};

TEST_F(CliSequence, IsWholeAndResumesAnywhere) {
  expect_success(trained(kAlone, "whole"));
  const Arguments sequence = {"parallel.tensor=2", "parallel.sequence=true"};
  const Outcome first =
      trained(4, "run", {"parallel.tensor=2", "parallel.sequence=true", "--stop-at=7"});
  expect_success(first);
  EXPECT_EQ(first.count("sequence   split over the tensor ranks outside attention and MLP\n"), 1u)
      << first.output;
  expect_success(trained(2, "run", {"parallel.tensor=2", "--stop-at=12"}));
  expect_success(trained(2, "run", sequence));
  expect_near(losses("run"), losses("whole"));
}

TEST_F(CliSequence, OfOneTensorRankIsNotMentioned) {
  const Outcome outcome = trained(2, "run", {"parallel.sequence=true", "train.steps=3"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count("sequence   split"), 0u) << outcome.output;
}

TEST_F(CliSequence, CommandsTakeItsCheckpointsOnAnyNumberOfRanks) {
  expect_success(trained(2, "run",
                         {"parallel.tensor=2", "parallel.sequence=true", "data.eval_fraction=0.2",
                          "eval.interval=20"}));
  const Arguments prompt = {"--prompt", "3 times", "--temperature", "0", "--max-tokens", "30"};
  const Outcome alone = asked(kAlone, "generate", prompt);
  expect_success(alone);
  EXPECT_EQ(asked(2, "generate", prompt).output, alone.output);

  const auto eval_loss = [&](int ranks, const Arguments& more) {
    const Outcome outcome = asked(ranks, "eval", more);
    expect_success(outcome);
    return parse_json(outcome.output, "eval --json")["loss"].get<double>();
  };
  const double loss = eval_loss(kAlone, {"--json"});
  // fp32 sums in another order.
  EXPECT_NEAR(eval_loss(2, {"--json", "--tensor", "2"}), loss, 1e-5 * loss);

  for (const int ranks : {kAlone, 2}) {
    expect_success(
        asked(ranks, "attention",
              {"--text", "3 times 4", "--output", path(fmt::format("look{}", ranks)).string()}));
  }
}

}  // namespace
}  // namespace tessera::test
