#include <gtest/gtest.h>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

/// A configuration whose data does not exist.
class CliPlan : public testing::Test {
 protected:
  CliPlan() {
    write_text(folder_ / "config.yaml",
               "run: {dir: nowhere/run}\n"
               "model: {num_layers: 2, hidden_size: 32, num_heads: 4, seq_length: 16, "
               "vocab_size: 257}\n"
               "data: {train: nowhere/data, tokenizer: 'bpe:nowhere/tokenizer'}\n"
               "batch: {global: 8, micro: 2}\n"
               "train: {steps: 20}\n");
  }

  Outcome run_plan(const Arguments& arguments) const {
    Arguments all = {"plan", folder_ / "config.yaml"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(tessera(kAlone, all));
  }

  static void expect_contains(const Outcome& outcome, const Arguments& facts) {
    for (const std::string& fact : facts) {
      EXPECT_NE(outcome.output.find(fact), std::string::npos)
          << "\"" << fact << "\" is missing from: " << outcome.output;
    }
  }

  TestFolder folder_;
};

TEST_F(CliPlan, ReportsRequirements) {
  const Outcome outcome = run_plan({"--ranks", "4", "--tensor", "2"});
  expect_success(outcome);
  expect_contains(outcome,
                  {"4 = 2 data × 2 tensor", "memory", "attention", "forward", "gradients"});
  const Outcome json = run_plan({"--ranks", "4", "--set", "parallel.tensor=2", "--json"});
  expect_success(json);
  const Json plan = Json::parse(json.output);
  EXPECT_EQ(plan["data"], 2);
  EXPECT_GT(plan["memory"]["bytes"], 0);
}

TEST_F(CliPlan, NamesAllBrokenRules) {
  const Arguments broken = {"--ranks", "7", "--tensor", "5"};
  expect_refused(run_plan(broken), {"but the run has 7 ranks", "a divisor of 7 (1, 7)",
                                    "model.num_heads is 4", "at most 4"});
  Arguments as_json = broken;
  as_json.push_back("--json");
  const Outcome outcome = run_plan(as_json);
  EXPECT_EQ(outcome.exit_code, 1);
  const Json rules = Json::parse(outcome.output)["broken_rules"];
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0]["key"], "parallel.tensor");
  EXPECT_EQ(rules[0]["value"], 5);
}

TEST_F(CliPlan, SweepsLayouts) {
  const Outcome outcome = run_plan({"--ranks", "4", "--sweep", "--memory", "80GB", "--flops", "1T",
                                    "--tensor-bandwidth", "2.5", "--show", "3"});
  expect_success(outcome);
  expect_contains(outcome, {"1.00 TFLOP/s", "2.50 GB/s sent to tensor ranks", "predictions",
                            "more\n", "74.5 GiB"});
  const Outcome none = run_plan({"--ranks", "4", "--sweep", "--memory", "1GiB"});
  EXPECT_EQ(none.exit_code, 1);
  expect_contains(none, {"none fits: the smallest needs", "tensor 4, micro 1, recompute"});
}

TEST_F(CliPlan, BoundsStep) {
  const Arguments bound = {"--ranks", "4", "--tensor", "2", "--roofline"};
  const auto with = [&](const Arguments& more) {
    Arguments all = bound;
    all.insert(all.end(), more.begin(), more.end());
    return run_plan(all);
  };
  expect_contains(with({}), {"on H100", "attention_backward", "450 GB/s sent to tensor ranks"});
  expect_contains(with({"--gpu", "NVIDIA A100-SXM4-80GB", "--data-bandwidth", "25"}),
                  {"on A100", "300 GB/s sent to tensor ranks, 25.0 GB/s to data ranks"});
  const Outcome json = with({"--json"});
  expect_success(json);
  EXPECT_GT(Json::parse(json.output)["seconds"], 0.0);
  expect_contains(with({"--markdown"}), {"| A100 | H100 | H200 | B200 |", "MFU at most"});
  expect_refused(with({"--gpu", "H900"}), {"\"H900\"", "known are"});
  expect_refused(with({"--gpu", "L4"}), {"L4 has no NVLink", "--tensor-bandwidth"});
  expect_refused(with({"--sweep", "--memory", "1GB"}), {"--sweep excludes --roofline"});
  expect_refused(with({"--json", "--markdown"}), {"excludes"});
  expect_refused(with({"--flops", "1T"}), {"excludes"});
}

TEST_F(CliPlan, PredictsTimeAndWhetherItFits) {
  const auto predicted = [&](const Arguments& more) {
    Arguments all = {"--ranks", "4", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return Json::parse(run_plan(all).output);
  };
  const Json h100 = predicted({"--gpu", "H100"})["time"];
  EXPECT_EQ(h100["steps"], 20);
  EXPECT_EQ(h100["tokens"], 20 * 8 * 16);
  EXPECT_GT(h100["mfu"], 0.0);
  EXPECT_DOUBLE_EQ(h100["seconds"].get<double>(), 20 * h100["step_seconds"].get<double>());
  EXPECT_GT(predicted({"--latency", "1000"})["time"]["seconds"], h100["seconds"]);
  EXPECT_EQ(predicted({"--gpu", "H100"})["fits"], true);
  EXPECT_EQ(predicted({"--memory", "1GB"})["fits"], false);  // 2 GiB stay free
  EXPECT_EQ(run_plan({"--ranks", "4", "--memory", "1GB"}).exit_code, 1);
  EXPECT_FALSE(predicted({"--memory", "8GB"}).contains("time"));
  EXPECT_EQ(predicted({"--sweep", "--gpu", "H200"})["memory_bytes"], 141'000'000'000);
  EXPECT_EQ(predicted({"--sweep", "--gpu", "H200", "--memory", "9GB"})["memory_bytes"],
            9'000'000'000);
  EXPECT_EQ(predicted({"--sweep"})["assumed"]["name"], "H100");
  expect_contains(run_plan({"--ranks", "4", "--gpu", "H100", "--memory", "20GB"}),
                  {"fits       yes", "ms a step on H100", "20 steps with 2.56 ktokens"});
}

TEST_F(CliPlan, RejectsInvalidOptions) {
  const auto refused = [&](const Arguments& arguments, const Arguments& facts) {
    expect_refused(run_plan(arguments), facts);
  };
  refused({}, {"--ranks is required"});
  refused({"--ranks", "0"}, {"'0' is not a whole number from 1 on"});
  refused({"--ranks", "2x"}, {"'2x' is not a whole number"});
  refused({"--ranks", "1000001"}, {"1 to 1000000 ranks", "1000001"});
  refused({"--ranks", "9000000000000000000"}, {"1 to 1000000 ranks"});
  refused({"--ranks", "99999999999999999999"}, {"is not a whole number"});
  refused({"--ranks", "4", "--tensor", "0"}, {"'0' is not a whole number from 1 on"});
  refused({"--ranks", "4", "--tensor", "9000000000000000000"}, {"but the run has 4 ranks"});
  refused({"--ranks", "4", "--sweep", "--set", "run.device=cpu"}, {"needs --memory"});
  refused({"--ranks", "4", "--gpu", "H100", "--set", "run.device=cpu"}, {"run.device is cpu"});
  const Arguments sweep = {"--ranks", "4", "--sweep", "--memory"};
  const auto swept = [&](const Arguments& more, const Arguments& facts) {
    Arguments all = sweep;
    all.insert(all.end(), more.begin(), more.end());
    refused(all, facts);
  };
  for (const char* memory : {"80Gb", "80 G", "0GB", "-1GB", "1.5GB", "GB", "99999999999TB"}) {
    swept({memory}, {"is not a size"});
  }
  for (const char* flops : {"400t", "0T", "-1T", "T", "infT", "1TT"}) {
    swept({"80GB", "--flops", flops}, {"--flops is ", "such as 400T"});
  }
  swept({"80GB", "--latency", "-1"}, {"--latency is ", "microseconds"});
  swept({"80GB", "--latency", "20us"}, {"--latency is ", "such as 20"});
  swept({"80GB", "--data-bandwidth", "40GB"}, {"--data-bandwidth: ", "is not a bandwidth"});
  swept({"80GB", "--tensor-bandwidth", "0"}, {"--tensor-bandwidth: ", "is not a bandwidth"});
  swept({"80GB", "--memory-bandwidth", "-3"}, {"--memory-bandwidth: ", "is not a bandwidth"});
  EXPECT_EQ(run_plan({"--ranks", "4", "--set", "model.num_layer=3"}).exit_code, 78);
}

}  // namespace
}  // namespace tessera::test
