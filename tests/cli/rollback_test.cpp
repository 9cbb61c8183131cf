#include <gtest/gtest.h>

#include <string>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using CliRollback = SmallRun;

/// The value of `key` in the last line of metrics.jsonl that has it.
Json last_in(const std::string& metrics, const std::string& key) {
  Json found;
  for (size_t begin = 0; begin < metrics.size();) {
    const size_t end = metrics.find('\n', begin);
    const Json line = parse_json(metrics.substr(begin, end - begin), "a line");
    if (line.contains(key)) found = line[key];
    begin = end + 1;
  }
  return found;
}

// Every norm above that of the step before is a spike.
TEST_F(CliRollback, ContinuesFromTheLastCheckpointSeveralTimesAtMost) {
  for (const int ranks : {kAlone, 4}) {
    const std::string run = "run" + std::to_string(ranks);
    const Outcome outcome = run_train(ranks, run,
                                      {"checkpoint.interval=4", "train.spike_factor=1",
                                       "train.spike_window=1", "train.max_rollbacks=2"});
    EXPECT_EQ(outcome.exit_code, 70) << outcome.output;
    EXPECT_EQ(outcome.count("and leaves out the samples since then. Rollback 1 of at most 2"), 1u)
        << outcome.output;
    EXPECT_EQ(outcome.count("and leaves out the samples since then. Rollback 2 of at most 2"), 1u)
        << outcome.output;
    EXPECT_EQ(outcome.count("is a spike, "), 3u) << outcome.output;
    losses(run);  // no step twice
    const std::string metrics = read_text(path(run) / "metrics.jsonl");
    EXPECT_EQ(last_in(metrics, "rollbacks"), 2);
    EXPECT_EQ(last_in(metrics, "bad_step"), "spike");
    // The same command resumes where the samples of the last bad step would be used again, and
    // counts on.
    const Outcome again = run_train(ranks, run,
                                    {"checkpoint.interval=4", "train.spike_factor=1",
                                     "train.spike_window=1", "train.max_rollbacks=2"});
    EXPECT_EQ(again.exit_code, 70) << again.output;
    EXPECT_EQ(again.count("Rollback"), 0u) << again.output;
    expect_success(run_train(ranks, run, {"checkpoint.interval=4"}));
  }
}

TEST_F(CliRollback, NeedsACheckpoint) {
  const Outcome outcome = run_train(kAlone, "run",
                                    {"checkpoint.interval=100", "train.spike_factor=1",
                                     "train.spike_window=1", "train.max_rollbacks=2"});
  EXPECT_EQ(outcome.exit_code, 70) << outcome.output;
  EXPECT_EQ(outcome.count("There is no checkpoint before it to go back to"), 1u) << outcome.output;
  expect_refused(run_train(kAlone, "run", {"train.max_rollbacks=2"}),
                 {"train.max_rollbacks is 2, but checkpoint.interval is auto"});
}

}  // namespace
}  // namespace tessera::test
