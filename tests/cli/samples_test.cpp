#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

class CliSamples : public SmallRun {
 protected:
  static Arguments keys(const Arguments& more = {}) {
    Arguments all = {"eval.prompts=[\"10 times \", \"\", \"a\\n\"]", "eval.sample_interval=8",
                     "eval.sample_tokens=24"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::string lines(const std::string& run) const { return read_text(path(run) / "samples.jsonl"); }

  /// Expects that the last checkpoints have the same weights and moments.
  void expect_same_weights(const std::string& run, const std::string& other) const {
    const fs::path folder = path(run) / "checkpoints/step_00000020";
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".safetensors") continue;
      const fs::path same = path(other) / "checkpoints/step_00000020" / entry.path().filename();
      EXPECT_EQ(read_text(same), read_text(entry.path())) << same;
      ++files;
    }
    EXPECT_GT(files, 0u);
  }
};

TEST_F(CliSamples, AreTheSameOnAnyLayoutAndChangeNothing) {
  expect_success(run_train(kAlone, "plain"));
  EXPECT_FALSE(fs::exists(path("plain") / "samples.jsonl"));
  const Outcome whole = run_train(kAlone, "whole", keys());
  expect_success(whole);
  EXPECT_EQ(losses("whole"), losses("plain"));
  expect_same_weights("whole", "plain");

  std::istringstream stream(lines("whole"));
  std::vector<std::string> found;
  for (std::string line; std::getline(stream, line);) {
    const Json json = parse_json(line, "samples.jsonl");
    found.push_back(fmt::format("{} {}", json.at("step").dump(), json.at("prompt").dump()));
    EXPECT_TRUE(json.at("text").is_string());
  }
  std::vector<std::string> expected;
  for (const char* step : {"8", "16", "20"}) {
    for (const char* prompt : {"\"10 times \"", "\"\"", "\"a\\n\""}) {
      expected.push_back(fmt::format("{} {}", step, prompt));
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(whole.count("step 16  prompt \"10 times \"\n    "), 1u) << whole.output;
  EXPECT_EQ(whole.count("step 16  prompt \"a\\x0a\"\n    "), 1u) << whole.output;

  const Arguments sharded = {"parallel.tensor=2", "parallel.zero=3", "parallel.sequence=true"};
  expect_success(run_train(4, "sharded", keys(sharded)));
  EXPECT_EQ(lines("sharded"), lines("whole"));
}

// As `generate` does with the checkpoint, and in the same order as an evaluation.
TEST_F(CliSamples, AreWhatGenerateWrites) {
  const Arguments greedy = {"eval.prompts=[\"10 times \"]", "eval.sample_interval=100",
                            "eval.sample_temperature=0",    "eval.sample_tokens=30",
                            "data.eval_fraction=0.2",       "eval.interval=10"};
  expect_success(run_train(2, "run", greedy));
  const Json sample = parse_json(lines("run"), "samples.jsonl");
  EXPECT_EQ(sample.at("step"), kSteps);
  const Outcome generated =
      run(tessera(kAlone, {"generate", path("run").string(), "--prompt", "10 times ",
                           "--temperature", "0", "--max-tokens", "30"}));
  expect_success(generated);
  const auto text = sample.at("text").get<std::string>();
  EXPECT_EQ(generated.count("10 times " + text + "\n"), 1u) << text << "\n" << generated.output;
}

TEST_F(CliSamples, FollowTheRunThroughStopsAndCrashes) {
  expect_success(run_train(kAlone, "whole", keys()));
  expect_success(run_train(kAlone, "run", keys({"--stop-at=16"})));
  // It was killed after steps that it had not saved.
  write_text(path("run") / "samples.jsonl", lines("run") + R"({"prompt":"p","step":19,"text":"t"})"
                                                           "\n{\"prompt\":\"trunc");
  expect_success(run_train(kAlone, "run", keys()));
  EXPECT_EQ(lines("run"), lines("whole"));
  const Outcome again = run_train(kAlone, "run", keys());
  expect_success(again);
  EXPECT_EQ(again.count("nothing to do"), 1u);
  EXPECT_EQ(lines("run"), lines("whole"));
  expect_success(run(tessera(kAlone, {"report", path("run").string()})));
  EXPECT_NE(read_text(path("run") / "report.html").find("<dt>10 times </dt>"), std::string::npos);
}

TEST_F(CliSamples, RefuseModelsAndPromptsBeforeTheRun) {
  expect_refused(run_train(2, "run", {"eval.prompts=[a]"}),
                 {"eval.prompts has 1 text, but eval.sample_interval is 0"});
  expect_refused(run_train(2, "run",
                           {"model.kind=bert", "model.vocab_size=261", "eval.prompts=[a]",
                            "eval.sample_interval=2"}),
                 {"eval.prompts has texts to continue, but model.kind is bert"});
  EXPECT_FALSE(fs::exists(path("run")));
}

}  // namespace
}  // namespace tessera::test
