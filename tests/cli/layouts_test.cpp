#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

struct Layout {
  int ranks;
  int tensor;
};

std::string tensor_key(const Layout& layout) {
  return fmt::format("parallel.tensor={}", layout.tensor);
}

class CliLayouts : public SmallRun {
 protected:
  Outcome run_train_on(const Layout& layout, const std::string& run,
                       Arguments overrides = {}) const {
    overrides.push_back(tensor_key(layout));
    return run_train(layout.ranks, run, overrides);
  }
};

TEST_F(CliLayouts, ShardedMatchesSingleRank) {
  expect_success(run_train(kAlone, "whole"));
  const auto whole = losses("whole");
  ASSERT_EQ(whole.size(), static_cast<size_t>(kSteps));
  EXPECT_LT(whole.at(kSteps), 0.8 * whole.at(1)) << "the loss did not fall";
  for (const Layout& layout : {Layout{1, 1}, Layout{2, 2}, Layout{2, 1}, Layout{4, 2}}) {
    SCOPED_TRACE(fmt::format("{} ranks, tensor {}", layout.ranks, layout.tensor));
    const std::string run = fmt::format("run{}x{}", layout.ranks, layout.tensor);
    expect_success(run_train_on(layout, run));
    expect_near(losses(run), whole);
  }
}

TEST_F(CliLayouts, ResumesBitForBitOnSameLayout) {
  const Layout layout{2, 2};
  expect_success(run_train_on(layout, "whole"));
  expect_success(run_train_on(layout, "run", {"--stop-at=7"}));
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step_00000007"}));
  EXPECT_EQ(losses("run").size(), 7u);
  const Outcome resumed = run_train_on(layout, "run");
  expect_success(resumed);
  EXPECT_EQ(resumed.count("resumed from " + path("run").string() +
                          "/checkpoints/step_00000007 (step 7, 56 samples seen)"),
            1u);
  EXPECT_EQ(losses("run"), losses("whole"));
  for (const auto& entry : fs::directory_iterator(path("whole") / "checkpoints/step_00000020")) {
    if (entry.path().extension() != ".safetensors") continue;
    const fs::path same = path("run") / "checkpoints/step_00000020" / entry.path().filename();
    EXPECT_EQ(read_text(same), read_text(entry.path())) << same;
  }
}

TEST_F(CliLayouts, ResumesOnAnyLayout) {
  expect_success(run_train(kAlone, "whole"));
  expect_success(run_train_on({2, 1}, "run", {"--stop-at=5"}));
  expect_success(run_train_on({4, 2}, "run", {"--stop-at=11"}));
  expect_success(run_train_on({2, 2}, "run", {"--stop-at=13"}));
  expect_success(run_train(kAlone, "run"));
  expect_near(losses("run"), losses("whole"));
}

TEST_F(CliLayouts, ShardsOverDataRanks) {
  expect_success(run_train(kAlone, "whole"));
  const Outcome first = run_train_on({4, 2}, "run", {"parallel.zero=3", "--stop-at=7"});
  expect_success(first);
  EXPECT_EQ(first.count("; a data rank updates 1/2 of them and keeps as much of the blocks)"), 1u)
      << first.output;
  const Arguments hybrid = {"parallel.zero=3", "parallel.shard=2", "--stop-at=11"};
  expect_success(run_train_on({4, 1}, "run", hybrid));
  expect_success(run(tessera(kAlone, {"verify", path("run").string()})));
  expect_success(run_train_on({2, 1}, "run"));
  expect_near(losses("run"), losses("whole"));
}

TEST_F(CliLayouts, KeepsConfigAndNewestCheckpoints) {
  expect_success(run_train(2, "run", {"checkpoint.interval=3", "checkpoint.keep=2"}));
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step_00000018", "step_00000020"}));
  EXPECT_NE(read_text(path("run") / "config.yaml").find("interval: 3"), std::string::npos);

  const std::string config = (path("run") / "config.yaml").string();
  const Outcome again = run(tessera(2, {"train", config}));
  expect_success(again);
  EXPECT_EQ(again.count("nothing to do: train.steps is 20"), 1u);
  expect_success(run(tessera(2, {"train", config, "--set", "run.dir=" + path("other").string()})));
  EXPECT_EQ(losses("other"), losses("run"));
}

TEST_F(CliLayouts, DoesNothingPastStopStep) {
  expect_success(run_train(kAlone, "run", {"--stop-at=6"}));
  const Outcome again = run_train(kAlone, "run", {"--stop-at=4"});
  expect_success(again);
  EXPECT_EQ(again.count("nothing to do: --stop-at is 4"), 1u);
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step_00000006"}));
  EXPECT_EQ(losses("run").size(), 6u);
}

TEST_F(CliLayouts, ShardedEvaluationMatchesSingleRank) {
  const Arguments evaluating = {"data.eval_fraction=0.2", "eval.interval=10", "train.steps=10"};
  Arguments sharded = evaluating;
  sharded.emplace_back("parallel.tensor=2");
  expect_success(run_train(kAlone, "whole", evaluating));
  expect_success(run_train(4, "sharded", sharded));
  const auto eval_loss = [&](const std::string& run) {
    const std::string text = read_text(path(run) / "metrics.jsonl");
    const std::string key = "\"eval_loss\":";
    const size_t at = text.find(key);
    EXPECT_NE(at, std::string::npos) << text;
    EXPECT_EQ(text.find(key, at + 1), std::string::npos) << text;
    return at == std::string::npos ? NAN : std::stod(text.substr(at + key.size()));
  };
  EXPECT_NEAR(eval_loss("sharded"), eval_loss("whole"), 2e-5 * eval_loss("whole"));
}

TEST_F(CliLayouts, OmitsProgressBarInFiles) {
  const Outcome outcome = run_train(2, "run", {"train.steps=3"});
  expect_success(outcome);
  EXPECT_EQ(outcome.count("\r"), 0u) << outcome.output;
  EXPECT_EQ(outcome.count("\033"), 0u) << outcome.output;
  EXPECT_EQ(outcome.count("devices    2 ranks on CPUs; mpi"), 1u) << outcome.output;
  EXPECT_EQ(outcome.count("2 ranks = 2 data × 1 tensor\n"), 1u) << outcome.output;
}

}  // namespace
}  // namespace tessera::test
