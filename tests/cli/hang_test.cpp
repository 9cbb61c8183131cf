#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

constexpr const char* kEndless = "train.steps=1000000";
constexpr int kHangs = 75;  // the documented exit code

/// Runs of some ranks, one of which is stopped.
class CliHang : public SmallRun {
 protected:
  /// The processes of the ranks, once the program has printed `text`.
  static std::vector<pid_t> ranks_after(Program& program, const std::string& text, size_t count) {
    EXPECT_TRUE(program.wait_for(text)) << program.output();
    const std::vector<pid_t> ranks = program.processes("tessera");
    EXPECT_EQ(ranks.size(), count);
    return ranks;
  }

  Arguments endless(const Arguments& more) const {
    Arguments overrides = {kEndless};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return train("run", overrides);
  }

  static void expect_stops_in_order(Program& program, pid_t rank) {
    ::kill(rank, SIGTERM);
    expect_stopped(program.wait());
  }

  /// The process of a rank, as its flight recorder says: mpirun may start ranks in any order.
  pid_t process_of(int rank) const {
    const Outcome status = run(tessera(kAlone, {"status", path("run").string()}));
    const std::string name = fmt::format("rank {} (host ", rank);
    const size_t at = status.output.find(name), process = status.output.find("process ", at);
    EXPECT_NE(process, std::string::npos) << status.output;
    return static_cast<pid_t>(std::atoi(status.output.c_str() + process + 8));
  }
};

TEST_F(CliHang, NamesTheStoppedRankAndEnds) {
  Program program(tessera(4, endless({"parallel.tensor=2", "run.hang_timeout=3"})));
  const auto ranks = ranks_after(program, "step       5/", 4);
  const pid_t stopped = process_of(2);
  ::kill(stopped, SIGSTOP);
  const Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out());
  EXPECT_EQ(outcome.exit_code, kHangs) << outcome.output;
  EXPECT_EQ(outcome.count("the run hangs"), 1u) << outcome.output;
  const size_t report = outcome.output.find("the run hangs");
  const std::string named = outcome.output.substr(report, outcome.output.find("the other ranks"));
  EXPECT_NE(named.find(fmt::format("process {})", stopped)), std::string::npos) << named;
  EXPECT_EQ(named.find("  rank 2 (host "), named.find("  rank ")) << named;
  const Outcome listed = run(tessera(kAlone, {"runs", path("run").string()}));
  EXPECT_EQ(listed.count(" hung "), 1u) << listed.output;
  EXPECT_NE(named.find("its process is stopped (state T)"), std::string::npos) << named;
  EXPECT_NE(named.find("in step "), std::string::npos) << named;
  EXPECT_EQ(outcome.count(fmt::format("kill -CONT {}", stopped)), 1u) << outcome.output;
  for (const pid_t rank : ranks) EXPECT_TRUE(ends_soon(rank)) << rank << " still runs";
  EXPECT_NE(read_text(path("run") / "flight_recorder" / "hang_report.txt").find("rank 2 (host "),
            std::string::npos);
}

TEST_F(CliHang, ContinuesWithTheSameBitsAfterAReport) {
  Program program(tessera(2, endless({"run.hang_timeout=2", "run.on_hang=report"})));
  ranks_after(program, "step       5/", 2);
  const pid_t stopped = process_of(1);
  ::kill(stopped, SIGSTOP);
  EXPECT_TRUE(program.wait_for("the run waits on")) << program.output();
  ::kill(stopped, SIGCONT);
  EXPECT_TRUE(program.wait_for("the run makes progress again")) << program.output();
  expect_stops_in_order(program, stopped);
  EXPECT_EQ(program.wait().count("the run hangs"), 1u) << program.output();
  const std::map<int64_t, double> disturbed = losses("run");
  const std::string last = fmt::format("--stop-at={}", disturbed.size());
  expect_success(run_train(2, "undisturbed", {kEndless, last}));
  EXPECT_EQ(disturbed, losses("undisturbed"));
}

TEST_F(CliHang, LetsAStoppedRunContinueWithoutATimeout) {
  Program program(tessera(2, endless({"run.hang_timeout=0"})));
  ranks_after(program, "step       5/", 2);
  const pid_t stopped = process_of(0);
  ::kill(stopped, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ::kill(stopped, SIGCONT);
  expect_stops_in_order(program, stopped);
  EXPECT_EQ(program.wait().count("the run hangs"), 0u) << program.output();
}

// As in a job that is suspended.
TEST_F(CliHang, IgnoresTimeInWhichAllRanksWereStopped) {
  Program program(tessera(2, endless({"run.hang_timeout=2"})));
  const auto ranks = ranks_after(program, "step       5/", 2);
  for (const pid_t rank : ranks) ::kill(rank, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  for (const pid_t rank : ranks) ::kill(rank, SIGCONT);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  expect_stops_in_order(program, ranks[0]);
  EXPECT_EQ(program.wait().count("the run hangs"), 0u) << program.output();
}

}  // namespace
}  // namespace tessera::test
