#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

/// Every file of a folder with its contents and time.
std::map<std::string, std::pair<std::string, fs::file_time_type>> files_of(const fs::path& folder) {
  std::map<std::string, std::pair<std::string, fs::file_time_type>> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[entry.path().string()] = {read_text(entry.path()), entry.last_write_time()};
  }
  return files;
}

class CliReplay : public SmallRun {
 protected:
  Arguments replay(int ranks, int64_t step, const Arguments& more = {}) const {
    Arguments arguments = {"replay", path("run").string(), "--step", std::to_string(step)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return tessera(ranks, arguments);
  }

  /// The report of a replay that succeeds.
  Json report(int ranks, int64_t step) const {
    const Outcome outcome = run(replay(ranks, step, {"--json"}));
    expect_success(outcome);
    const size_t begin = outcome.output.find('{');
    return parse_json(outcome.output.substr(begin), "the report");
  }

  /// Expects that a step of a run on these ranks has the bits of metrics.jsonl, and that its parts
  /// add up.
  void expect_same_bits(int ranks, int64_t step) const {
    const Json json = report(ranks, step);
    EXPECT_EQ(json["loss"].get<double>(), losses("run").at(step)) << step;
    EXPECT_TRUE(json["logged"]["same_bits"].get<bool>()) << json.dump();
    EXPECT_EQ(json["documents"].size(), 8u);  // batch.global
    double loss = 0.0, squares = 0.0;
    for (const Json& document : json["documents"]) {
      EXPECT_EQ(document["token_targets"], 16);
      EXPECT_NE(document["name"].get<std::string>().find(dataset()), std::string::npos);
      loss += document["loss"].get<double>() / 8.0;
    }
    EXPECT_NEAR(loss, json["loss"].get<double>(), 1e-5);
    for (const Json& layer : json["layers"])
      squares += std::pow(layer["grad_norm"].get<double>(), 2);
    EXPECT_NEAR(std::sqrt(squares), json["grad_norm"].get<double>(), 1e-6);
  }
};

TEST_F(CliReplay, HasTheBitsOfTheRunOnTheSameLayout) {
  for (const int ranks : {kAlone, 4}) {
    fs::remove_all(path("run"));
    const std::string tensor = ranks == 4 ? "parallel.tensor=2" : "parallel.tensor=1";
    expect_success(
        run_train(ranks, "run",
                  {tensor, "model.dropout=0.1", "checkpoint.interval=8", "train.spike_factor=1.1",
                   "train.spike_window=2", "train.max_skipped_steps=20"}));
    const auto before = files_of(path("run"));
    for (const int64_t step : {1, 8, 9, 20}) expect_same_bits(ranks, step);
    const Outcome text = run(replay(ranks, 12));
    expect_success(text);
    EXPECT_EQ(text.count("step 12 of "), 1u) << text.output;
    EXPECT_EQ(text.count("resumed from "), 1u) << text.output;
    EXPECT_EQ(text.count("(step 8, 64 samples seen), and 3 steps computed before it"), 1u)
        << text.output;
    EXPECT_EQ(text.count("the same bits as in metrics.jsonl"), 1u) << text.output;
    EXPECT_EQ(text.count("losses of the 8 documents"), 1u) << text.output;
    EXPECT_EQ(text.count("blocks.1 "), 1u) << text.output;
    EXPECT_EQ(files_of(path("run")), before);
  }
}

TEST_F(CliReplay, WorksWhileTheRunIsRunning) {
  Program program(tessera(2, train("run", {"train.steps=1000000", "checkpoint.interval=10"})));
  EXPECT_TRUE(program.wait_for("step      30/")) << program.output();
  const Json json = report(2, 25);
  EXPECT_TRUE(json["logged"]["same_bits"].get<bool>()) << json.dump();
  EXPECT_TRUE(program.is_running());
  ::kill(program.processes("tessera").front(), SIGTERM);
  expect_stopped(program.wait());
}

TEST_F(CliReplay, SaysThatAnotherLayoutHasOtherBits) {
  expect_success(run_train(2, "run"));
  const Outcome other = run(replay(kAlone, 20));
  expect_success(other);
  EXPECT_EQ(other.count("only the same layout, device and program have the same bits"), 1u)
      << other.output;
}

// Weights grow by lr × weight_decay = 10¹² a step and are infinite after four.
TEST_F(CliReplay, FindsWhatWasNotFinite) {
  for (const int ranks : {kAlone, 2}) {
    fs::remove_all(path("run"));
    const Outcome outcome =
        run_train(ranks, "run", {"optimizer.lr=1e6", "optimizer.weight_decay=1e6"});
    EXPECT_EQ(outcome.exit_code, 70) << outcome.output;
    EXPECT_EQ(outcome.count("The first tensor that is not finite is "), 1u) << outcome.output;
    const std::string metrics = read_text(path("run") / "metrics.jsonl");
    const size_t place = metrics.find("\"bad_step\"");
    ASSERT_NE(place, std::string::npos) << metrics;
    const size_t begin = metrics.rfind('\n', place) + 1;
    const Json last = parse_json(metrics.substr(begin, metrics.find('\n', place) - begin),
                                 "the line of the bad step");
    EXPECT_EQ(last["bad_step"], "loss");
    EXPECT_EQ(last["samples"].size(), 8u);
    const auto step = last["step"].get<int64_t>();
    const Json json = report(ranks, step);
    EXPECT_EQ(json["first_not_finite"], last["first_not_finite"]);
    EXPECT_EQ(json["skipped_because"], "its loss is NaN");
    expect_refused(run(replay(ranks, step + 1)), {fmt::format("the loss of step {} is NaN", step)});
  }
}

TEST_F(CliReplay, RefusesWhatIsNoStepOfARun) {
  expect_refused(run(replay(kAlone, 3)), {path("run").string(), "is not a folder"});
  fs::create_directory(path("run"));
  expect_refused(run(replay(kAlone, 3)), {"config.yaml does not exist"});
  fs::remove(path("run"));
  expect_success(run_train(kAlone, "run"));
  expect_refused(run(replay(kAlone, 21)), {"--step is 21, but train.steps of ", " is 20"});
  EXPECT_EQ(run(replay(kAlone, 0)).exit_code, 64);
}

}  // namespace
}  // namespace tessera::test
