#include "parallel/communicators/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "core/error.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;

template <typename Poll>
std::string shared_error_of(int ranks, std::chrono::milliseconds limit, Poll&& poll) {
  std::atomic<int> shared = 0;
  std::string message = "nothing was thrown";
  run_thread_ranks(ranks, [&](Communicator& world) {
    try {
      connect(world, "the connection", limit, [&] { return poll(world.rank()); });
    } catch (const SharedError& error) {
      if (world.rank() == 0) message = error.what();
      ++shared;
    }
  });
  EXPECT_TRUE(shared == 0 || shared == ranks) << "all ranks throw, or none";
  return message;
}

TEST(Connect, WaitsForSlowestRank) {
  std::atomic<int> polls = 0;
  EXPECT_EQ(shared_error_of(3, 10s, [&](int rank) { return rank != 1 || ++polls == 50; }),
            "nothing was thrown");
  EXPECT_EQ(polls, 50) << "a ready rank is not polled again";
}

TEST(Connect, FailingRankFreesOthers) {
  EXPECT_EQ(shared_error_of(4, 60s,
                            [](int rank) {
                              if (rank == 2) fail("no such network");
                              return false;
                            }),
            "rank 2 of 4: no such network");
}

TEST(Connect, ReadyRankSeesLaterFailure) {
  std::atomic<int> polls = 0;
  EXPECT_EQ(shared_error_of(2, 60s,
                            [&](int rank) {
                              if (rank == 1 && ++polls == 40) fail("lost");
                              return rank == 0;
                            }),
            "rank 1 of 2: lost");
}

TEST(Connect, TimesOut) {
  EXPECT_EQ(shared_error_of(2, 50ms, [](int rank) { return rank == 0; }),
            "rank 1 of 2: the connection was not ready after 0.05 seconds");
}

}  // namespace
}  // namespace tessera
