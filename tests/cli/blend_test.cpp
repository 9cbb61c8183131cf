#include <fmt/format.h>
#include <gtest/gtest.h>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

/// Adds a second, smaller dataset to SmallRun's.
class CliBlend : public SmallRun {
 protected:
  CliBlend() {
    std::string text;
    for (int i = 0; i < 20; ++i) text += fmt::format("Line {} has {} words or so.\n", i, i % 5);
    write_text(path("lines.txt"), text);
    expect_success(run(tessera(kAlone, {"prepare", "--input", path("lines.txt").string(),
                                        "--output", lines(), "--documents", "line"})));
  }

  std::string lines() const { return path("lines").string(); }

  std::string blend(const std::string& weights) const {
    return fmt::format("data.train={{{}: {}, {}: 1}}", dataset(), weights, lines());
  }
};

TEST_F(CliBlend, ResumedRunMatchesUninterruptedRun) {
  const Arguments keys = {blend("2"), "data.eval_fraction=0.1", "eval.interval=10",
                          "model.dropout=0.1", "data.packing=documents"};
  const Outcome whole = run_train(2, "whole", keys);
  expect_success(whole);
  EXPECT_EQ(whole.count(" samples, 66.67% of the run's samples; "), 1u) << whole.output;
  EXPECT_EQ(whole.count(" samples, 33.33% of the run's samples; "), 1u) << whole.output;

  Arguments first = keys;
  first.emplace_back("--stop-at=7");
  expect_success(run_train(2, "run", first));
  const Outcome resumed = run_train(2, "run", keys);
  expect_success(resumed);
  EXPECT_EQ(resumed.count("sample order is different"), 0u) << resumed.output;
  EXPECT_EQ(losses("run"), losses("whole"));
  // The run's own config.yaml reproduces it.
  expect_success(run(tessera(2, {"train", (path("whole") / "config.yaml").string(), "--set",
                                 "run.dir=" + path("again").string()})));
  EXPECT_EQ(losses("again"), losses("whole"));
}

TEST_F(CliBlend, ReportsChangedWeights) {
  expect_success(run_train(kAlone, "run", {blend("2"), "--stop-at=5"}));
  const Outcome resumed = run_train(kAlone, "run", {blend("3"), "--stop-at=6"});
  expect_success(resumed);
  EXPECT_EQ(resumed.count("the blend of data.train is [{\"samples\":"), 1u) << resumed.output;
  EXPECT_EQ(resumed.count("\"share\":0.75},"), 1u) << resumed.output;
  EXPECT_EQ(resumed.count("changed since the run's last start: data.train: {"), 1u)
      << resumed.output;
}

TEST_F(CliBlend, EvaluatesEachPart) {
  expect_success(run_train(kAlone, "run",
                           {blend("2"), "data.eval_fraction=0.1", "data.test_fraction=0.2",
                            "eval.interval=20", "eval.batches=1000"}));
  const auto report = [&](int ranks, const std::string& part) {
    const Outcome outcome =
        run(tessera(ranks, {"eval", path("run").string(), "--part", part, "--json"}));
    expect_success(outcome);
    return parse_json(outcome.output, "eval --json");
  };
  const Json eval = report(kAlone, "eval"), test = report(kAlone, "test");
  EXPECT_GT(test["samples"].get<int64_t>(), eval["samples"].get<int64_t>());
  EXPECT_GT(report(kAlone, "train")["samples"].get<int64_t>(), test["samples"].get<int64_t>());
  EXPECT_NEAR(report(2, "test")["loss"].get<double>(), test["loss"].get<double>(), 1e-4);
  const std::string metrics = read_text(path("run") / "metrics.jsonl");
  const size_t last = metrics.rfind('{');
  ASSERT_NE(last, std::string::npos);
  EXPECT_NEAR(parse_json(metrics.substr(last), "metrics.jsonl")["eval_loss"].get<double>(),
              eval["loss"].get<double>(), 1e-4);
}

TEST_F(CliBlend, RejectsInvalidBlends) {
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_train(ranks, "run", {blend("0")}),
                   {"data.train has '" + dataset() + "', whose weight is 0, but must be"});
    expect_refused(run_train(ranks, "run", {"data.train={}"}), {"data.train is an empty map"});
    expect_refused(
        run_train(ranks, "run",
                  {fmt::format("data.train={{{}: 1, {}: 1}}", dataset(), path("no").string())}),
        {"there is no dataset " + path("no").string()});
  }
}

}  // namespace
}  // namespace tessera::test
