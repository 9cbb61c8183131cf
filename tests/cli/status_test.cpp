#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliStatus : public SmallRun {
 protected:
  Outcome status() const { return run(tessera(kAlone, {"status", path("run").string()})); }

  pid_t process_of(int rank) const {
    const std::string output = status().output;
    const size_t at = output.find(fmt::format("rank {} (host ", rank));
    return static_cast<pid_t>(std::atoi(output.c_str() + output.find("process ", at) + 8));
  }
};

TEST_F(CliStatus, ShowsARunThatIsAlive) {
  Program program(tessera(4, train("run", {"train.steps=1000000", "parallel.tensor=2"})));
  EXPECT_TRUE(program.wait_for("step       5/")) << program.output();
  const Outcome alive = status();
  expect_success(alive);
  EXPECT_EQ(alive.count(": 4 of 4 ranks alive, on 1 host, started "), 1u) << alive.output;
  EXPECT_EQ(alive.count("ms for the last step"), 1u) << alive.output;
  EXPECT_EQ(alive.count(") is in step "), 4u) << alive.output;
  EXPECT_EQ(alive.count("heartbeat "), 4u) << alive.output;
  ::kill(process_of(0), SIGTERM);
  expect_stopped(program.wait());
  const Outcome ended = status();
  expect_success(ended);
  EXPECT_EQ(ended.count(": 0 of 4 ranks alive"), 1u) << ended.output;
  EXPECT_EQ(ended.count(" ended in order "), 4u) << ended.output;
}

TEST_F(CliStatus, ShowsTheLastWordsOfARunThatDied) {
  Program program(tessera(2, train("run", {"train.steps=1000000"})));
  EXPECT_TRUE(program.wait_for("step       5/")) << program.output();
  const pid_t other = process_of(0), killed = process_of(1);
  ::kill(killed, SIGKILL);
  EXPECT_NE(program.wait().exit_code, 0);
  EXPECT_TRUE(ends_soon(other));  // mpirun does not wait for it
  const Outcome dead = status();
  expect_success(dead);
  EXPECT_EQ(dead.count(": 0 of 2 ranks alive"), 1u) << dead.output;
  EXPECT_EQ(dead.count(fmt::format("process {}) died without a message", killed)), 1u)
      << dead.output;
  EXPECT_GE(dead.count("it was in step "), 1u) << dead.output;
  EXPECT_GE(dead.count(" of step "), 3u) << dead.output;
}

TEST_F(CliStatus, RefusesOtherFolders) {
  expect_refused(run(tessera(kAlone, {"status", path("none").string()})),
                 {path("none").string(), "is not a folder"});
  std::filesystem::create_directory(path("empty"));
  expect_refused(run(tessera(kAlone, {"status", path("empty").string()})),
                 {path("empty").string(), "has no flight recorders"});
}

// A rank that computes for a tenth of the time, because it is stopped for the rest: it is the
// slowest in nearly every step, even if other programs slow down the other rank.
TEST_F(CliStatus, NamesASlowRank) {
  Program program(tessera(2, train("run", {"train.steps=1000000", "log.interval=10"})));
  EXPECT_TRUE(program.wait_for("step      10/")) << program.output();
  const pid_t slow = process_of(1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  const std::string warning = "rank 1 was the slowest in ";
  while (program.output().find(warning) == std::string::npos &&
         std::chrono::steady_clock::now() < end) {
    ::kill(slow, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(9));
    ::kill(slow, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(slow, SIGTERM);
  const Outcome outcome = program.wait();
  expect_stopped(outcome);
  EXPECT_EQ(outcome.count(warning), 1u) << outcome.output;
  std::ifstream file(path("run") / "metrics.jsonl");
  int lines = 0, named = 0;
  for (std::string line; std::getline(file, line);) {
    const Json json = parse_json(line, "metrics.jsonl");
    if (!json.contains("slowest_rank")) continue;
    ++lines;
    if (json.at("slowest_rank") == 1) ++named;
    EXPECT_GE(json.at("slowest_rank_share").get<double>(), 0.0);
    EXPECT_LE(json.at("slowest_rank_share").get<double>(), 1.0);
  }
  EXPECT_GE(named, 3);
  EXPECT_GT(lines, 0);
}

}  // namespace
}  // namespace tessera::test
