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
  const size_t last = metrics.rfind('\n', metrics.rfind("\"eval_loss\"")) + 1;
  const Json logged =
      parse_json(metrics.substr(last, metrics.find('\n', last) - last), "metrics.jsonl");
  EXPECT_NEAR(logged["eval_loss"].get<double>(), eval["loss"].get<double>(), 1e-4);
  const Json sharded = report(2, "eval")["datasets"];
  ASSERT_EQ(eval["datasets"].size(), 2u);
  int64_t targets = 0;
  for (size_t i = 0; i < 2; ++i) {
    const Json& of = eval["datasets"][i];
    const std::string name = i == 0 ? "data" : "lines";
    EXPECT_EQ(of["name"], name);
    for (const char* key : {"loss", "bits_per_byte"}) {
      const auto expected = of[key].get<double>();
      EXPECT_GT(expected, 0.0);
      EXPECT_NEAR(sharded[i][key].get<double>(), expected, 1e-4);
      EXPECT_NEAR(logged[std::string("eval_") + key + "/" + name].get<double>(), expected, 1e-4);
    }
    targets += of["token_targets"].get<int64_t>();
  }
  EXPECT_EQ(targets, eval["token_targets"].get<int64_t>());
  const Outcome shown = run(tessera(kAlone, {"eval", path("run").string()}));
  EXPECT_EQ(shown.count("\nloss by dataset: data "), 1u) << shown.output;
  EXPECT_NE(eval["datasets"][0]["loss"], eval["datasets"][1]["loss"]);
  EXPECT_NEAR(logged["eval_bits_per_byte"].get<double>(), eval["bits_per_byte"].get<double>(),
              1e-4);
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
