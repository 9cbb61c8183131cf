#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "launch/support/text/json.h"
#include "parallel/host/host_name.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

constexpr const char* kEndless = "train.steps=1000000";

/// Runs under `tessera supervise`.
class CliSupervise : public SmallRun {
 protected:
  static Arguments supervise(const Arguments& options, const Arguments& command) {
    Arguments words = {"supervise", "--delay=0.1", "--kill-grace=1"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return tessera(kAlone, words);
  }

  /// The ranks' processes among those of a supervised program, which is a `tessera` itself.
  static std::vector<pid_t> ranks_of(const Program& program) {
    std::vector<pid_t> processes = program.processes("tessera");
    if (!processes.empty()) processes.erase(processes.begin());
    return processes;
  }

  std::vector<Json> journal(const std::string& event) const {
    std::vector<Json> lines;
    std::ifstream file(path("run") / "supervise.jsonl");
    for (std::string line; std::getline(file, line);) {
      Json json = parse_json(line, "supervise.jsonl");
      if (json.at("event") == event) lines.push_back(std::move(json));
    }
    return lines;
  }

  /// Waits until the run has a checkpoint of at least this step.
  bool wait_for_step(Program& program, int64_t step) const {
    while (checkpoints("run").empty() ||
           checkpoints("run").back() < fmt::format("step_{:08}", step)) {
      if (!program.is_running()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
};

TEST_F(CliSupervise, StartsAKilledRunAgainWithTheSameBits) {
  Program program(
      supervise({}, tessera(2, train("run", {"train.steps=200", "checkpoint.interval=20"}))));
  ASSERT_TRUE(wait_for_step(program, 40)) << program.output();
  ::kill(ranks_of(program).back(), SIGKILL);
  const Outcome outcome = program.wait();
  expect_success(outcome);
  const std::vector<Json> ends = journal("end");
  ASSERT_EQ(ends.size(), 2u) << outcome.output;
  EXPECT_EQ(ends[0].at("reason"), "failed");
  EXPECT_TRUE(ends[0].contains("rank")) << outcome.output;
  EXPECT_EQ(ends[0].at("host"), host_name());
  EXPECT_GE(ends[0].at("step"), 40);
  EXPECT_EQ(ends[1].at("reason"), "finished");
  EXPECT_EQ(ends[1].at("step"), 200);
  expect_success(run_train(2, "undisturbed", {"train.steps=200"}));
  EXPECT_EQ(losses("run"), losses("undisturbed"));
}

TEST_F(CliSupervise, SavesAndEndsWhenAskedToStop) {
  Program program(supervise({}, tessera(2, train("run", {kEndless}))));
  ASSERT_TRUE(program.wait_for("step       8/")) << program.output();
  ::kill(program.processes("tessera").front(), SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 99) << outcome.output;
  EXPECT_EQ(outcome.count("asked to stop: saved after step"), 1u) << outcome.output;
  EXPECT_EQ(checkpoints("run").size(), 1u);
  EXPECT_EQ(journal("start").size(), 1u);
}

TEST_F(CliSupervise, EndsWhereARestartMakesNoSense) {
  const Outcome outcome = run(supervise({}, tessera(2, train("run", {"parallel.tensor=3"}))));
  EXPECT_EQ(outcome.exit_code, 78) << outcome.output;
  EXPECT_EQ(journal("start").size(), 1u);
  const Outcome usage = run(supervise({}, {"mpirun", "true"}));
  EXPECT_EQ(usage.exit_code, 64) << usage.output;
}

TEST_F(CliSupervise, EndsAfterRestartsWithoutProgress) {
  std::filesystem::remove(dataset() + ".bin");
  const Outcome outcome =
      run(supervise({"--max-restarts-without-progress=2"}, tessera(kAlone, train("run"))));
  EXPECT_EQ(outcome.exit_code, 65) << outcome.output;
  EXPECT_EQ(journal("start").size(), 3u) << outcome.output;
  EXPECT_EQ(outcome.count("2 restarts in a row have saved no newer checkpoint"), 1u);
}

// The launcher ignores the names of hosts, of which this machine has only one.
TEST_F(CliSupervise, LeavesOutAHostThatFails) {
  const std::string launcher = path("mpirun").string();
  const Arguments real = tessera(2, {});
  std::string words;
  for (size_t i = 0; i + 3 < real.size(); ++i) words += real[i] + " ";
  write_text(launcher,
             fmt::format("#!/bin/sh\nranks=$2\nshift 4\nexec {} -np $ranks \"$@\"\n", words));
  ::chmod(launcher.c_str(), 0755);
  Arguments command = {launcher, "-np", "4", "--host", host_name() + ":2,other:2"};
  const Arguments trains =
      tessera(kAlone, train("run", {"train.steps=300", "checkpoint.interval=20"}));
  command.insert(command.end(), trains.begin(), trains.end());
  command.insert(command.end(), {"--set", "parallel.tensor=2"});
  Program program(supervise({"--max-host-failures=1"}, command));
  ASSERT_TRUE(wait_for_step(program, 20)) << program.output();
  ::kill(ranks_of(program).back(), SIGKILL);
  const Outcome outcome = program.wait();
  expect_success(outcome);
  const std::vector<Json> left_out = journal("host_left_out");
  ASSERT_EQ(left_out.size(), 1u) << outcome.output;
  EXPECT_EQ(left_out[0].at("ranks"), 2);
  EXPECT_EQ(left_out[0].at("tensor"), 2);
  EXPECT_NE(journal("start").back().at("command").dump().find("other:2"), std::string::npos);
  EXPECT_EQ(losses("run").size(), 300u);
}

}  // namespace
}  // namespace tessera::test
