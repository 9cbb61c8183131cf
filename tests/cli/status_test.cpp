#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>

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
  expect_success(program.wait());
  const Outcome ended = status();
  expect_success(ended);
  EXPECT_EQ(ended.count(": 0 of 4 ranks alive"), 1u) << ended.output;
  EXPECT_EQ(ended.count(" ended in order "), 4u) << ended.output;
}

TEST_F(CliStatus, ShowsTheLastWordsOfARunThatDied) {
  Program program(tessera(2, train("run", {"train.steps=1000000"})));
  EXPECT_TRUE(program.wait_for("step       5/")) << program.output();
  const pid_t killed = process_of(1);
  ::kill(killed, SIGKILL);
  EXPECT_NE(program.wait().exit_code, 0);
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

}  // namespace
}  // namespace tessera::test
