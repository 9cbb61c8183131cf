#include "launch/train/straggler_watch.h"

#include <gtest/gtest.h>

#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

TEST(StragglerWatch, FindsTheRankThatWaitedTheLeast) {
  // 3 ranks, 2 steps of 1 s: rank 2 is the slowest in both.
  const SlowestRank slowest = find_slowest({0.5, 0.6, 0.4, 0.5, 0.1, 0.0}, 2, 2.0);
  EXPECT_EQ(slowest.rank, 2);
  EXPECT_EQ(slowest.steps, 2);
  // The others waited 0.4 + 0.3 and 0.6 + 0.5 s longer, of 6 s.
  EXPECT_DOUBLE_EQ(slowest.share, 1.8 / 6.0);
}

TEST(StragglerWatch, CountsOnlyTheStepsOfTheSlowestRank) {
  // Rank 0 is the slowest in one step, rank 1 in two.
  const SlowestRank slowest = find_slowest({0.0, 0.3, 0.2, 0.9, 0.1, 0.0}, 3, 3.0);
  EXPECT_EQ(slowest.rank, 1);
  EXPECT_EQ(slowest.steps, 2);
  EXPECT_NEAR(slowest.share, 0.4 / 6.0, 1e-12);
}

/// The warnings on rank 0 after `results` results of 5 steps, in which `slow(result)` waits less.
template <typename Slow>
std::vector<std::string> warnings_of(int results, double wait, Slow&& slow) {
  std::vector<std::string> warnings;
  run_thread_ranks(3, [&](Communicator& world) {
    StragglerWatch watch;
    for (int result = 0; result < results; ++result) {
      for (int step = 0; step < 5; ++step) {
        watch.add_step(1.0, world.rank() == slow(result) ? 0.0 : wait);
      }
      watch.gather(world);
      const std::string warning = watch.take_warning();
      if (world.rank() == 0 && !warning.empty()) warnings.push_back(warning);
    }
  });
  return warnings;
}

TEST(StragglerWatch, WarnsOnceOfARankThatIsAlwaysSlow) {
  const auto warnings = warnings_of(10, 0.6, [](int) { return 1; });
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find("rank 1 was the slowest in 15 of the last 15 steps, and the ranks "
                             "spent 40% of their time waiting for it"),
            0u)
      << warnings[0];
}

TEST(StragglerWatch, IgnoresChangingAndHarmlessSlowRanks) {
  EXPECT_TRUE(warnings_of(10, 0.6, [](int result) { return result % 3; }).empty());
  EXPECT_TRUE(warnings_of(10, 0.1, [](int) { return 1; }).empty());
}

TEST(StragglerWatch, HasNoResultForASingleRank) {
  run_thread_ranks(1, [&](Communicator& world) {
    StragglerWatch watch;
    watch.add_step(1.0, 0.0);
    EXPECT_FALSE(watch.gather(world));
    EXPECT_EQ(watch.take_warning(), "");
  });
}

}  // namespace
}  // namespace tessera
