#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliStreams : public SmallRun {
 protected:
  /// Runs tessera in a shell that redirects its streams.
  static Outcome redirected(const Arguments& arguments, const std::string& redirections) {
    return run({"sh", "-c",
                fmt::format("{} {}", fmt::join(tessera(kAlone, arguments), " "), redirections)});
  }
};

TEST_F(CliStreams, LostResultsAreErrors) {
  const std::vector<Arguments> commands = {{"--help"},
                                           {"--version"},
                                           {},
                                           {"train", "--help"},
                                           {"config", "--markdown"},
                                           {"man"},
                                           {"completion", "bash"},
                                           {"inspect", dataset()}};
  for (const Arguments& command : commands) {
    for (const char* lost : {">/dev/full", ">&-"}) {
      EXPECT_EQ(redirected(command, lost).exit_code, 74)
          << fmt::format("{}", fmt::join(command, " "));
    }
  }
}

TEST_F(CliStreams, NobodyNeedsToReadMessages) {
  for (const char* lost : {"2>/dev/full", "2>&-"}) {
    EXPECT_EQ(redirected({"config", "missing.yaml"}, lost).exit_code, 78);
    EXPECT_EQ(redirected({"trian"}, lost).exit_code, 64);
    EXPECT_EQ(redirected({"supervise", "--delay=0", "--max-restarts-without-progress=1", "--",
                          "false", "tessera", "train", "missing.yaml"},
                         lost)
                  .exit_code,
              78);
  }
}

TEST_F(CliStreams, RunNeedsNoStreams) {
  expect_success(redirected(train("run"), "<&- >&- 2>&-"));
  EXPECT_EQ(losses("run").size(), static_cast<size_t>(kSteps));
  const std::string metrics = read_text(path("run") / "metrics.jsonl");
  for (size_t at = 0; at < metrics.size(); at = metrics.find('\n', at) + 1) {
    ASSERT_EQ(metrics[at], '{') << metrics.substr(at, 100);
  }
  expect_success(redirected(train("other"), ">/dev/full"));
}

TEST_F(CliStreams, NamesDriveNoTerminal) {
  const Outcome outcome = run(tessera(kAlone, {"inspect", "\x1b[31m\xff\u009b\u202e"}));
  EXPECT_EQ(outcome.count("\\u009b\\u202e"), 1u) << outcome.output;
  EXPECT_EQ(outcome.output.find('\x1b'), std::string::npos);
  EXPECT_EQ(run(tessera(kAlone, {"trian\x1b"})).output.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tessera::test
