#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliEma : public SmallRun {
 protected:
  Outcome use(const std::string& command, const std::string& run_name, const Arguments& more,
              int ranks = kAlone) const {
    Arguments arguments = {command, path(run_name).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  double eval_loss(const Arguments& more, int ranks) const {
    Arguments arguments = {"--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = use("eval", "run", arguments, ranks);
    expect_success(outcome);
    const Json report = parse_json(outcome.output, "eval --json");
    EXPECT_EQ(report.at("ema"), std::ranges::find(more, "--ema") != more.end());
    return report.at("loss").get<double>();
  }

  std::string exported(const std::string& to, const Arguments& more) const {
    Arguments arguments = {"--to", path(to).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = use("export", "run", arguments);
    expect_success(outcome);
    EXPECT_EQ(outcome.count("averaged"), more.size()) << outcome.output;
    return read_text(path(to) / "model.safetensors");
  }

  /// The last evaluation in the run's metrics.
  Json last_evaluation() const {
    Json last;
    std::istringstream lines(read_text(path("run") / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      Json json = parse_json(line, "metrics.jsonl");
      if (json.contains("eval_loss")) last = std::move(json);
    }
    return last;
  }
};

TEST_F(CliEma, IsTrainedEvaluatedExportedAndDropped) {
  const Arguments evaluated = {"data.eval_fraction=0.2", "eval.interval=10", "eval.batches=1000"};
  Arguments averaged = evaluated;
  averaged.insert(averaged.end(), {"optimizer.ema_decay=0.9", "parallel.zero=1"});
  const Outcome trained = run_train(2, "run", averaged);
  expect_success(trained);
  EXPECT_EQ(trained.count("EMA loss"), 2u) << trained.output;
  EXPECT_EQ(trained.count("weight average"), 1u) << trained.output;

  const Json last = last_evaluation();
  const double loss = last.at("eval_loss"), ema_loss = last.at("eval_ema_loss");
  EXPECT_GT(std::abs(loss - ema_loss), 1e-3);
  const Outcome runs = run(tessera(kAlone, {"runs", path("").string()}));
  EXPECT_EQ(runs.count(fmt::format("{:.4f} (step 20)", ema_loss)), 1u) << runs.output;
  for (const int ranks : {kAlone, 2}) {
    EXPECT_NEAR(eval_loss({}, ranks), loss, 1e-5 * loss);
    EXPECT_NEAR(eval_loss({"--ema"}, ranks), ema_loss, 1e-5 * ema_loss);
  }
  const double rounded = eval_loss({"--precision", "bf16"}, 2);
  EXPECT_NE(rounded, loss);
  EXPECT_NEAR(rounded, loss, 1e-2 * loss);
  EXPECT_NE(exported("average", {"--ema"}), exported("weights", {}));
  const auto said = [&](const Arguments& more) {
    Arguments arguments = {"--prompt", "3 times", "--temperature", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome text = use("generate", "run", arguments);
    expect_success(text);
    return text.output;
  };
  EXPECT_NE(said({"--ema"}), said({}));
  const std::string step = "run/checkpoints/" + checkpoints("run").back();
  EXPECT_EQ(use("inspect", step, {}).count("\naverage"), 1u);

  // Without the key, the average ends; with it, another begins.
  Arguments longer = evaluated;
  longer.emplace_back("train.steps=22");
  const Outcome dropped = run_train(2, "run", longer);
  expect_success(dropped);
  EXPECT_EQ(dropped.count("has an average of the weights, but optimizer.ema_decay is 0"), 1u)
      << dropped.output;
  expect_refused(use("eval", "run", {"--ema"}, 2),
                 {"--ema", "has none", "did not set optimizer.ema_decay"});
  expect_refused(use("generate", "run", {"--ema", "--prompt", ""}), {"has none"});
  expect_refused(use("export", "run", {"--ema", "--to", path("none").string()}), {"has none"});
  averaged.emplace_back("train.steps=24");
  const Outcome again = run_train(kAlone, "run", averaged);
  expect_success(again);
  EXPECT_EQ(again.count("it begins with the weights of step 22"), 1u) << again.output;
}

TEST_F(CliEma, DecayIsBelowOne) {
  expect_refused(run_train(kAlone, "run", {"optimizer.ema_decay=1"}),
                 {"optimizer.ema_decay", "a number from 0.0 to below 1.0"});
}

}  // namespace
}  // namespace tessera::test
