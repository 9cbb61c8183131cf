#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliGenerate : public SmallRun {
 protected:
  Outcome generated(int ranks, const Arguments& more) const {
    Arguments arguments = {"generate", "--checkpoint", path("run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  /// As above, with a prompt and the likeliest tokens.
  std::string continued(int ranks, const Arguments& more = {}) const {
    Arguments arguments = {"--prompt", "3 times", "--temperature", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = generated(ranks, arguments);
    expect_success(outcome);
    EXPECT_EQ(outcome.output.compare(0, 7, "3 times"), 0) << outcome.output;
    return outcome.output;
  }
};

TEST_F(CliGenerate, TheSameTextOnEveryLayout) {
  for (const int tensor : {1, 2}) {
    SCOPED_TRACE(fmt::format("saved on {} tensor ranks", tensor));
    std::filesystem::remove_all(path("run"));
    expect_success(trained(2, "run", {fmt::format("parallel.tensor={}", tensor)}));
    const std::string alone = continued(kAlone, {"--max-tokens", "50"});  // the context is 16
    EXPECT_EQ(alone.size(), 7 + 50 + 1u);
    EXPECT_EQ(continued(1, {"--max-tokens", "50"}), alone);
    EXPECT_EQ(continued(2, {"--max-tokens", "50"}), alone);
  }
}

TEST_F(CliGenerate, TheSeedDecidesTheText) {
  expect_success(trained(kAlone, "run"));
  const auto text = [&](const std::string& seed) {
    const Outcome outcome = generated(kAlone, {"--prompt", "1", "--seed", seed});
    expect_success(outcome);
    return outcome.output;
  };
  EXPECT_EQ(text("1"), text("1"));
  EXPECT_NE(text("1"), text("2"));
  // The options that narrow the choice to one token leave nothing to the seed.
  EXPECT_EQ(continued(kAlone, {"--seed", "1"}), continued(kAlone, {"--seed", "2"}));
  const Arguments one_token = {"--prompt", "3 times", "--top-k", "1"};
  EXPECT_EQ(generated(kAlone, one_token).output, continued(kAlone));
}

TEST_F(CliGenerate, EmptyAndLongPrompts) {
  expect_success(trained(kAlone, "run", {"train.steps=3"}));
  expect_success(generated(2, {"--prompt", "", "--max-tokens", "3"}));
  const std::string longer(100, 'a');  // than the context
  const Outcome outcome = generated(2, {"--prompt", longer, "--max-tokens", "3"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count(longer), 1u);
  EXPECT_EQ(generated(kAlone, {"--prompt", "a", "--max-tokens", "0"}).output, "a\n");
}

TEST_F(CliGenerate, TokensThatTheTokenizerLacksAreNeverChosen) {
  // Untrained, 50 of 4096 tokens would hardly all be bytes.
  expect_success(trained(kAlone, "run", {"model.vocab_size=4096", "train.steps=3"}));
  expect_success(generated(kAlone, {"--prompt", "a", "--max-tokens", "50"}));
}

TEST_F(CliGenerate, SaysWhichCheckpointsItPassedOver) {
  expect_success(trained(kAlone, "run", {"train.steps=4", "checkpoint.interval=2"}));
  ASSERT_EQ(checkpoints("run").size(), 2u);
  const std::string newest = checkpoints("run").back();
  std::filesystem::remove(path("run") / "checkpoints" / newest / "tokenizer.json");
  for (const int ranks : {kAlone, 2}) {
    const Outcome outcome = generated(ranks, {"--prompt", "a"});
    expect_success(outcome);
    EXPECT_EQ(outcome.count("warning: passed over " + newest + ": damaged: "), 1u)
        << outcome.output;
  }
}

TEST_F(CliGenerate, RefusesWhatItCanNotDo) {
  expect_success(trained(kAlone, "run", {"train.steps=3"}));
  for (const int ranks : {kAlone, 2}) {
    expect_refused(generated(ranks, {"--prompt", "a", "--temperature", "-1"}),
                   {"--temperature is -1: it is 0 (the likeliest token) or a positive number"});
    expect_refused(generated(ranks, {"--prompt", "a", "--seed", "-1"}),
                   {"--seed: '-1' is not a whole number from 0 on"});
    expect_refused(generated(ranks, {"--prompt"}), {"tessera generate: --prompt: "});
    const std::string nowhere = path("nowhere").string();
    expect_refused(run(tessera(ranks, {"generate", "--checkpoint", nowhere, "--prompt", "a"})),
                   {nowhere + " is not a folder: give a run's folder, or one of its steps"});
  }
  expect_refused(generated(3, {"--prompt", "a"}),
                 {"3 ranks were started, but the model has 4 heads and an MLP of 128"});
}

}  // namespace
}  // namespace tessera::test
