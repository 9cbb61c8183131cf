#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>
#include <utility>

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

/// Starts of `tessera run` with 2 ranks.
class CliRun : public CliSupervise {
 protected:
  static Arguments on_two_ranks(const Arguments& command) {
    Arguments words = tessera(kAlone, {"run", "--kill-grace=1", "-np", "2"});
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  /// The last line that was printed.
  static std::string last_line(const std::string& output) {
    const size_t end = output.find_last_not_of('\n');
    return output.substr(output.rfind('\n', end) + 1, end - output.rfind('\n', end));
  }

  static pid_t parent_of(pid_t process) {
    std::ifstream stat(fmt::format("/proc/{}/stat", process));
    std::string word;
    for (int i = 0; i < 4; ++i) stat >> word;
    return std::stoi(word);
  }
};

TEST_F(CliRun, SavesAfterASignalAndSaysHowToResume) {
  const Arguments words = on_two_ranks(train("run", {kEndless}));
  enum class To { launcher, all };
  for (const auto& [number, to] : {std::pair(SIGINT, To::launcher),
                                   std::pair(SIGTERM, To::launcher), std::pair(SIGTERM, To::all)}) {
    SCOPED_TRACE(testing::Message() << number << " " << static_cast<int>(to));
    std::filesystem::remove_all(path("run"));
    Program program(words);
    ASSERT_TRUE(program.wait_for("step       8/")) << program.output();
    const pid_t launcher = program.processes("tessera").front();
    if (to == To::all) {  // as Slurm does
      const std::vector<pid_t> ranks = ranks_of(program);
      ::kill(parent_of(ranks.front()), number);
      for (const pid_t rank : ranks) ::kill(rank, number);
    }
    ::kill(launcher, number);
    const Outcome outcome = program.wait();
    expect_stopped(outcome);
    EXPECT_EQ(outcome.count("stopping after this step"), 1u) << outcome.output;
    ASSERT_EQ(checkpoints("run").size(), 1u);
    EXPECT_EQ(losses("run").size(), std::stoul(checkpoints("run").back().substr(5)));
    EXPECT_THAT(last_line(outcome.output), testing::StartsWith("to resume from step "));
    EXPECT_THAT(last_line(outcome.output),
                testing::EndsWith(fmt::format("{}", fmt::join(words, " "))));
    EXPECT_FALSE(std::filesystem::exists(path("run") / "supervise.jsonl"));
  }
}

TEST_F(CliRun, EndsAtOnceAfterASecondSignal) {
  Program program(on_two_ranks(train("run", {kEndless})));
  ASSERT_TRUE(program.wait_for("step       8/")) << program.output();
  for (const pid_t rank : ranks_of(program)) ::kill(rank, SIGSTOP);  // as if a step took forever
  const pid_t launcher = program.processes("tessera").front();
  for (const char* answer : {"stopping after this step", "ending now"}) {
    while (program.is_running() && program.output().find(answer) == std::string::npos) {
      ::kill(launcher, SIGINT);  // those of the same half second count once
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  const Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out());
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_EQ(outcome.count("ending now, without saving. Lost: all "), 1u) << outcome.output;
  // Open MPI lets stopped ranks continue before it kills them, perhaps to their save.
  EXPECT_THAT(last_line(outcome.output),
              testing::HasSubstr(checkpoints("run").empty() ? "nothing is saved; to start again"
                                                            : "to resume from step"));
}

TEST_F(CliRun, RunsOtherCommandsAndRefusesIncompleteOnes) {
  expect_success(run(on_two_ranks(train("run", {"parallel.tensor=2", "--stop-at=2"}))));
  const Outcome text = run(
      on_two_ranks({"generate", path("run").string(), "--prompt", "1 times", "--max-tokens", "2"}));
  expect_success(text);
  EXPECT_EQ(text.count("1 times"), 1u) << text.output;
  expect_refused(run(tessera(kAlone, {"run", "train", "x.yaml"})), {"-np 4"});
  expect_refused(run(tessera(kAlone, {"run", "-np", "0", "train", "x.yaml"})), {"'0' is not"});
  expect_refused(run(tessera(kAlone, {"run", "-np", "2"})), {"COMMAND is required"});
  expect_refused(run(tessera(kAlone, {"run", "-np", "2", "true"})), {"--np", "true is none"});
  expect_refused(run(on_two_ranks({"train", path("no.yaml").string()})), {"no.yaml"});
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
