#include "launch/train/walltime_limit.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/trace/flight_recorder.h"

namespace tessera {
namespace {

using Clock = WalltimeLimit::Clock;

Clock::time_point at(double seconds) {
  return Clock::time_point() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

WalltimeLimit limit_of(double end, double save_seconds) {
  return {WalltimeEnd{at(end), "run.walltime"}, save_seconds};
}

/// Takes steps of some length and returns when the limit ends them.
double ends_at(WalltimeLimit& limit, double start, double step) {
  double now = start;
  while (!limit.must_end(at(now), false)) now += step;
  return now;
}

TEST(WalltimeLimit, LeavesTimeForAStepAndASave) {
  WalltimeLimit assumed = limit_of(1000, 10);
  const double end = ends_at(assumed, 0, 5);
  EXPECT_LE(end, 1000 - 5 - 10);
  EXPECT_GE(end, 1000 - 2 - 2 * 5 - 1.5 * 10 - 5);
}

TEST(WalltimeLimit, BelievesMeasuredSaves) {
  WalltimeLimit measured = limit_of(1000, 500);
  measured.add_save(4);
  EXPECT_GE(ends_at(measured, 0, 1), 980);
  WalltimeLimit slow = limit_of(1000, 1);
  slow.add_save(100);
  EXPECT_LE(ends_at(slow, 0, 1), 900);
}

TEST(WalltimeLimit, ForgetsASlowStepSlowly) {
  WalltimeLimit limit = limit_of(10'000, 1);
  double now = 0;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(limit.must_end(at(now += 1), false));
  EXPECT_FALSE(limit.must_end(at(now += 100), false));  // as in a suspended job
  EXPECT_GE(ends_at(limit, now + 1, 1), 9990);
  WalltimeLimit before = limit_of(10'000, 1);
  EXPECT_GE(ends_at(before, 0, 1), 9990);
}

TEST(WalltimeLimit, LeavesTimeForAnEvaluationIfOneFollows) {
  WalltimeLimit limit = limit_of(100, 1);
  EXPECT_FALSE(limit.must_end(at(0), true));
  limit.add_evaluation(std::chrono::seconds(30));
  EXPECT_FALSE(limit.must_end(at(50), false));
  EXPECT_TRUE(limit.must_end(at(50), true));
}

TEST(WalltimeLimit, NeverEndsWithoutALimit) {
  WalltimeLimit none({}, 10);
  EXPECT_FALSE(none.must_end(at(1e9), true));
}

TEST(WalltimeLimit, CountsFromTheStartOfTheProcess) {
  RunSection run;
  EXPECT_FALSE(walltime_end(run, false));
  run.walltime = 100'000;
  const auto end = walltime_end(run, false);
  ASSERT_TRUE(end);
  const std::chrono::duration<double> left = end->time - Clock::now();
  EXPECT_LE(left.count(), 100'000);
  EXPECT_GE(left.count(), 99'000);
}

TEST(WalltimeLimit, FindsTheEndOfASlurmJob) {
  const int64_t now = now_in_nanoseconds() / 1'000'000'000;
  ::setenv("SLURM_JOB_END_TIME", std::to_string(now + 60).c_str(), 1);
  const auto end = walltime_end({}, true);
  EXPECT_FALSE(walltime_end({}, false));
  ::setenv("SLURM_JOB_END_TIME", "soon", 1);
  EXPECT_FALSE(walltime_end({}, true));
  ::unsetenv("SLURM_JOB_END_TIME");
  EXPECT_FALSE(walltime_end({}, true));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->name, "the Slurm job");
  const std::chrono::duration<double> left = end->time - Clock::now();
  EXPECT_NEAR(left.count(), 60, 2);
}

}  // namespace
}  // namespace tessera
