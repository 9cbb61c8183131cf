#include "launch/data/prepare/ordered_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>

#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

using Work = OrderedWork<int, int>;

/// Jobs take different times, so that they end in another order.
int slowly(int job) {
  std::this_thread::sleep_for(std::chrono::microseconds(job * 7919 % 300));
  return 10 * job;
}

class OrderedWorkThreads : public ::testing::TestWithParam<int> {
 protected:
  /// Jobs 0 to n - 1; records the results that were used.
  Work::Stages stages(int n) {
    return {.take = [this, n]() -> std::optional<int> {
              if (taken_ == n) return std::nullopt;
              return taken_++;
            },
            .size = [](int) { return size_t{1}; },
            .work = slowly,
            .use = [this](int result) { used_.push_back(result); }};
  }

  std::string error_of_run(Work::Stages stages) {
    Work work(std::move(stages), 8);
    return error_of([&] { work.run(GetParam()); });
  }

  int taken_ = 0;
  std::vector<int> used_;
};

TEST_P(OrderedWorkThreads, UsesResultsInJobOrder) {
  for (const int n : {0, 1, 200}) {
    taken_ = 0;
    used_.clear();
    Work(stages(n), 8).run(GetParam());
    ASSERT_EQ(static_cast<int>(used_.size()), n);
    for (int i = 0; i < n; ++i) EXPECT_EQ(used_[static_cast<size_t>(i)], 10 * i);
  }
}

TEST_P(OrderedWorkThreads, BoundsUnusedResults) {
  std::atomic<int> in_flight = 0, most = 0;
  Work::Stages bounded = stages(100);
  bounded.take = [&, take = bounded.take] {
    const auto job = take();
    if (job) most = std::max(most.load(), ++in_flight);
    return job;
  };
  bounded.size = [](int job) { return static_cast<size_t>(job % 10 == 0 ? 100 : 1); };
  bounded.use = [&, use = bounded.use](int result) {
    --in_flight;
    use(result);
  };
  Work(bounded, 4).run(GetParam());
  EXPECT_LE(most, 4);
  EXPECT_EQ(used_.size(), 100u);
}

TEST_P(OrderedWorkThreads, ThrowsFirstErrorInJobOrder) {
  for (const char* stage : {"take", "work", "use"}) {
    taken_ = 0;
    used_.clear();
    Work::Stages failing = stages(1000);
    const auto check = [stage](const char* here, int job) {
      if (job >= 20 && std::string_view(stage) == here) fail("{} of {}", here, job);
    };
    failing.take = [&, take = failing.take] {
      const auto job = take();
      check("take", *job);
      return job;
    };
    failing.work = [&](int job) {
      check("work", job);
      return slowly(job);
    };
    failing.use = [&, use = failing.use](int result) {
      check("use", result / 10);
      use(result);
    };
    EXPECT_EQ(error_of_run(failing), fmt::format("{} of 20", stage));
    EXPECT_EQ(used_.size(), 20u);
    EXPECT_LT(taken_, 100);
  }
}

TEST_P(OrderedWorkThreads, ErrorEndsWaitForJobs) {
  std::stop_token stop;
  Work::Stages waiting = stages(1000);
  waiting.take = [&, take = waiting.take] {
    while (taken_ == 3 && !stop.stop_requested() && GetParam() > 1) std::this_thread::yield();
    return take();
  };
  waiting.work = [](int job) {
    if (job == 2) fail("work of 2");
    return job;
  };
  Work work(waiting, 8);
  stop = work.stop_token();
  EXPECT_EQ(error_of([&] { work.run(GetParam()); }), "work of 2");
}

INSTANTIATE_TEST_SUITE_P(Threads, OrderedWorkThreads, ::testing::Values(1, 2, 5),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tessera
