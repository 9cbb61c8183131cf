#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliGenerate : public SmallRun {
 protected:
  Outcome run_generate(int ranks, const Arguments& more) const {
    Arguments arguments = {"generate", path("run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  /// Continues "3 times" with the likeliest tokens.
  std::string greedy_text(int ranks, const Arguments& more = {}) const {
    Arguments arguments = {"--prompt", "3 times", "--temperature", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_generate(ranks, arguments);
    expect_success(outcome);
    EXPECT_EQ(outcome.output.compare(0, 7, "3 times"), 0) << outcome.output;
    return outcome.output;
  }
};

TEST_F(CliGenerate, GeneratesSameTextOnEveryLayout) {
  for (const int tensor : {1, 2}) {
    SCOPED_TRACE(fmt::format("saved on {} tensor ranks", tensor));
    std::filesystem::remove_all(path("run"));
    expect_success(run_train(2, "run", {fmt::format("parallel.tensor={}", tensor)}));
    const std::string alone = greedy_text(kAlone, {"--max-tokens", "50"});  // the context is 16
    EXPECT_EQ(alone.size(), 7 + 50 + 1u);
    EXPECT_EQ(greedy_text(1, {"--max-tokens", "50"}), alone);
    EXPECT_EQ(greedy_text(2, {"--max-tokens", "50"}), alone);
  }
}

TEST_F(CliGenerate, SeedDeterminesText) {
  expect_success(run_train(kAlone, "run"));
  const auto text = [&](const std::string& seed) {
    const Outcome outcome = run_generate(kAlone, {"--prompt", "1", "--seed", seed});
    expect_success(outcome);
    return outcome.output;
  };
  EXPECT_EQ(text("1"), text("1"));
  EXPECT_NE(text("1"), text("2"));
  // The seed has no effect when the options leave only one choice.
  EXPECT_EQ(greedy_text(kAlone, {"--seed", "1"}), greedy_text(kAlone, {"--seed", "2"}));
  const Arguments one_token = {"--prompt", "3 times", "--top-k", "1"};
  EXPECT_EQ(run_generate(kAlone, one_token).output, greedy_text(kAlone));
}

TEST_F(CliGenerate, AcceptsEmptyAndLongPrompts) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  expect_success(run_generate(2, {"--prompt", "", "--max-tokens", "3"}));
  const std::string longer(100, 'a');  // longer than the context
  const Outcome outcome = run_generate(2, {"--prompt", longer, "--max-tokens", "3"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count(longer), 1u);
  EXPECT_EQ(run_generate(kAlone, {"--prompt", "a", "--max-tokens", "0"}).output, "a\n");
}

TEST_F(CliGenerate, ReadsPromptFromStandardInput) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  const std::string prompt = "3 times\n\n4 times\n";
  write_text(path("prompt.txt"), prompt);
  for (const int ranks : {kAlone, 2}) {
    const Outcome given = run_generate(ranks, {"--prompt", prompt, "--max-tokens", "9"});
    expect_success(given);
    EXPECT_EQ(given.output.compare(0, prompt.size(), prompt), 0) << given.output;
    const std::string script = fmt::format("exec \"$@\" <{}", path("prompt.txt").string());
    Arguments command = {"sh", "-c", script, "sh"};
    const Arguments program =
        tessera(ranks, {"generate", path("run").string(), "--prompt", "-", "--max-tokens", "9"});
    command.insert(command.end(), program.begin(), program.end());
    EXPECT_EQ(run(command).output, given.output);
    // Tests run with an empty standard input.
    EXPECT_EQ(run_generate(ranks, {"--prompt", "-"}).output,
              run_generate(ranks, {"--prompt", ""}).output);
  }
}

TEST_F(CliGenerate, NeverSamplesTokensOutsideTokenizer) {
  // An untrained model would hardly choose 50 bytes in a row out of 4096 tokens.
  expect_success(run_train(kAlone, "run", {"model.vocab_size=4096", "train.steps=3"}));
  expect_success(run_generate(kAlone, {"--prompt", "a", "--max-tokens", "50"}));
}

TEST_F(CliGenerate, ReportsSkippedCheckpoints) {
  expect_success(run_train(kAlone, "run", {"train.steps=4", "checkpoint.interval=2"}));
  ASSERT_EQ(checkpoints("run").size(), 2u);
  const std::string newest = checkpoints("run").back();
  std::filesystem::remove(path("run") / "checkpoints" / newest / "tokenizer.json");
  for (const int ranks : {kAlone, 2}) {
    const Outcome outcome = run_generate(ranks, {"--prompt", "a"});
    expect_success(outcome);
    EXPECT_EQ(outcome.count("warning: passed over " + newest + ": damaged: "), 1u)
        << outcome.output;
  }
}

TEST_F(CliGenerate, RejectsInvalidOptions) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_generate(ranks, {"--prompt", "a", "--temperature", "-1"}),
                   {"--temperature is -1: it is 0 (the likeliest token) or a positive number"});
    expect_refused(run_generate(ranks, {"--prompt", "a", "--seed", "-1"}),
                   {"--seed: '-1' is not a whole number from 0 on"});
    expect_refused(run_generate(ranks, {"--prompt"}), {"tessera generate: --prompt: "});
    const std::string nowhere = path("nowhere").string();
    expect_refused(run(tessera(ranks, {"generate", nowhere, "--prompt", "a"})),
                   {nowhere + " is not a folder: pass a run's folder, or one of its steps"});
  }
  const Outcome one = run_generate(kAlone, {"--prompt", "a"});
  EXPECT_EQ(run_generate(3, {"--prompt", "a"}).output, one.output);  // of 4 heads: 2, 1 and 1
}

TEST_F(CliGenerate, PromptHasAtLeastThePrefix) {
  expect_success(run_train(2, "run", {"train.steps=3", "model.attention_prefix=4"}));
  const Outcome one = run_generate(kAlone, {"--prompt", "abcd"});
  expect_success(one);  // and outgrows the context
  for (const int ranks : {kAlone, 2}) {
    EXPECT_EQ(run_generate(ranks, {"--prompt", "abcd"}).output, one.output);
    expect_refused(run_generate(ranks, {"--prompt", "abc"}),
                   {"the prompt has 3 tokens", "(model.attention_prefix)", "at least 4 tokens"});
  }
}

}  // namespace
}  // namespace tessera::test
