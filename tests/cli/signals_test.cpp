#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

constexpr const char* kEndless = "train.steps=1000000";

class CliSignals : public SmallRun {
 protected:
  /// The arguments of a run that does not end by itself.
  Arguments endless(const Arguments& more = {}) const {
    Arguments overrides = {kEndless};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return train("run", overrides);
  }

  /// The processes of the ranks, once the program has printed `text`.
  static std::vector<pid_t> ranks_after(Program& program, const std::string& text, size_t count) {
    EXPECT_TRUE(program.wait_for(text)) << program.output();
    const std::vector<pid_t> ranks = program.processes("tessera");
    EXPECT_EQ(ranks.size(), count);
    return ranks;
  }

  /// oneDNN's AVX2 kernels use the stack pointer for other data, so a signal handler in a thread
  /// that computes would overwrite the heap.
  static void expect_one_thread_that_receives_signals(pid_t rank) {
    const std::vector<int> signals = {SIGTERM, SIGINT, SIGUSR1};
    std::vector<std::string> receiving;
    for (const auto& thread :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/task", rank))) {
      std::ifstream status(thread.path() / "status");
      std::string field;
      while (status >> field && field != "SigBlk:") {
      }
      uint64_t blocked = 0;
      status >> std::hex >> blocked;
      if (std::any_of(signals.begin(), signals.end(),
                      [&](int signal) { return (blocked >> (signal - 1) & 1) == 0; })) {
        receiving.push_back(thread.path().filename());
      }
    }
    ASSERT_EQ(receiving.size(), 1u);
    EXPECT_NE(receiving[0], std::to_string(rank));  // not the main thread
  }

  /// The steps of the evaluations in metrics.jsonl.
  std::vector<size_t> evaluated_steps() const {
    std::vector<size_t> steps;
    std::ifstream file(path("run") / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const Json json = parse_json(line, "metrics.jsonl");
      if (json.contains("eval_loss")) steps.push_back(json.at("step").get<size_t>());
    }
    return steps;
  }

  void expect_intact_checkpoints() const {
    const Outcome verified = run(tessera(kAlone, {"verify", path("run").string()}));
    expect_success(verified);
    EXPECT_EQ(verified.count(": intact"), checkpoints("run").size()) << verified.output;
  }

  /// Resumes for a few steps, and expects each step in the log exactly once.
  void expect_resumes(int ranks) const {
    const size_t saved = std::stoul(checkpoints("run").back().substr(5));
    const Outcome resumed =
        run_train(ranks, "run", {kEndless, fmt::format("--stop-at={}", saved + 3)});
    expect_success(resumed);
    EXPECT_EQ(resumed.count(fmt::format("(step {}, ", saved)), 1u) << resumed.output;
    EXPECT_EQ(losses("run").size(), saved + 3);
  }
};

TEST_F(CliSignals, SavesAndExitsOnStopSignal) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) {
    SCOPED_TRACE(signal);
    Program program(tessera(2, endless()));
    const auto ranks = ranks_after(program, "step       8/", 2);
    for (const pid_t rank : ranks) expect_one_thread_that_receives_signals(rank);
    // Schedulers signal all processes, but one is enough.
    if (signal != SIGTERM) ::kill(ranks.front(), signal);
    ::kill(ranks.back(), signal);
    const Outcome outcome = program.wait();
    expect_stopped(outcome);
    EXPECT_EQ(outcome.count("asked to stop: saved after step"), 1u) << outcome.output;
    ASSERT_EQ(checkpoints("run").size(), 1u);
    EXPECT_EQ(losses("run").size(), std::stoul(checkpoints("run").back().substr(5)));
    expect_intact_checkpoints();
    std::filesystem::remove_all(path("run"));
  }
}

TEST_F(CliSignals, MakesUpForAnEvaluationThatAStopSkipped) {
  const Arguments evaluating = {"data.eval_fraction=0.2", "eval.interval=1", "eval.batches=1"};
  Program program(tessera(2, endless(evaluating)));
  ::kill(ranks_after(program, "step       8/", 2).front(), SIGINT);
  const Outcome outcome = program.wait();
  expect_stopped(outcome);
  const size_t saved = std::stoul(checkpoints("run").back().substr(5));
  EXPECT_EQ(evaluated_steps().size(), saved - 1);  // a stop may leave no time for it

  Arguments two_more = evaluating;
  two_more.insert(two_more.end(), {kEndless, fmt::format("--stop-at={}", saved + 2)});
  std::vector<size_t> all(saved + 2);
  std::iota(all.begin(), all.end(), size_t{1});
  for (int start = 0; start < 2; ++start) {  // the second finds nothing to do
    expect_success(run_train(2, "run", two_more));
    EXPECT_EQ(evaluated_steps(), all);
  }
}

TEST_F(CliSignals, SavesAndExitsOnStopSignalWithoutMpirun) {
  Program program(tessera(kAlone, endless()));
  ::kill(ranks_after(program, "step       8/", 1).front(), SIGTERM);
  const Outcome outcome = program.wait();
  expect_stopped(outcome);
  EXPECT_EQ(outcome.count("stopping after this step"), 1u) << outcome.output;
  EXPECT_EQ(outcome.count("to resume: " + tessera(kAlone, {"train"}).front() + " train "), 1u)
      << outcome.output;
  expect_intact_checkpoints();
  expect_resumes(kAlone);
}

TEST_F(CliSignals, SavesAndExitsInTime) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome =
      run(tessera(2, endless({"run.walltime=0:00:04", "checkpoint.interval=50"})));
  const std::chrono::duration<double> length = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(outcome.exit_code, 98) << outcome.output;
  EXPECT_LT(length.count(), 5.0);  // mpirun itself takes some tenths of a second
  EXPECT_EQ(outcome.count("out of time: saved after step"), 1u) << outcome.output;
  EXPECT_EQ(outcome.count("before the end of run.walltime"), 1u) << outcome.output;
  expect_intact_checkpoints();
  expect_resumes(2);
}

TEST_F(CliSignals, ResumesFromIntactCheckpointAfterKill) {
  // Three kills, each at an arbitrary moment.
  for (int death = 0; death < 3; ++death) {
    Program program(tessera(2, endless({"checkpoint.interval=1", "checkpoint.keep=3"})));
    const std::string reached = fmt::format("step_{:08}", 5 * (death + 1));
    for (const pid_t rank : ranks_after(program, reached, 2)) ::kill(rank, SIGKILL);
    EXPECT_NE(program.wait().exit_code, 0);
    const Outcome verified = run(tessera(kAlone, {"verify", path("run").string()}));
    expect_success(verified);  // other leftovers do not count as checkpoints
    EXPECT_GE(verified.count(": intact"), 1u) << verified.output;
  }
  expect_resumes(2);
  expect_intact_checkpoints();
}

TEST_F(CliSignals, EndsAllRanksWhenOneDies) {
  Program program(tessera(4, endless({"parallel.tensor=2"})));
  const auto ranks = ranks_after(program, "step       3/", 4);
  ::kill(ranks[2], SIGKILL);
  const Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out());
  EXPECT_NE(outcome.exit_code, 0);
  for (const pid_t rank : ranks) EXPECT_TRUE(ends_soon(rank)) << "rank " << rank << " still runs";
}

TEST_F(CliSignals, SavesIntoFolderThatWasRemoved) {
  Program program(tessera(2, endless()));
  const auto ranks = ranks_after(program, "step       8/", 2);
  std::filesystem::remove_all(path("run"));
  ::kill(ranks.front(), SIGTERM);
  const Outcome outcome = program.wait();
  expect_stopped(outcome);
  EXPECT_EQ(outcome.count("was removed while the run was using it"), 1u) << outcome.output;
  ASSERT_EQ(checkpoints("run").size(), 1u);
  expect_intact_checkpoints();
  const Outcome status = run(tessera(kAlone, {"status", path("run").string()}));
  EXPECT_EQ(status.count("ended in order"), 2u) << status.output;
}

TEST_F(CliSignals, SavesNothingIntoFolderOfOthers) {
  Program program(tessera(2, endless()));
  const auto ranks = ranks_after(program, "step       8/", 2);
  std::filesystem::remove_all(path("run"));
  std::filesystem::create_directory(path("run"));
  ::kill(ranks.front(), SIGTERM);
  expect_refused(program.wait(), {path("run").string(), "was replaced by another folder"});
  EXPECT_TRUE(std::filesystem::is_empty(path("run")));
}

}  // namespace
}  // namespace tessera::test
