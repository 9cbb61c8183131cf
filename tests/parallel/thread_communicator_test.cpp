#include "parallel/communicators/thread/thread_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/error.h"
#include "core/memory.h"
#include "parallel/communicators/exchange.h"
#include "tests/parallel/case_values.h"
#include "tests/parallel/communicator_cases.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// --- cases for all communicators

class ThreadCases : public ::testing::TestWithParam<std::tuple<CommunicatorCase, int>> {};

TEST_P(ThreadCases, Hold) {
  const auto& [the_case, size] = GetParam();
  run_thread_ranks(size, the_case.body);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadCases,
                         ::testing::Combine(::testing::ValuesIn(communicator_cases()),
                                            ::testing::Values(1, 2, 3, 4, 7)),
                         name_of_case);

class SelfCases : public ::testing::TestWithParam<CommunicatorCase> {};

TEST_P(SelfCases, Hold) { GetParam().body(*make_self_communicator()); }

INSTANTIATE_TEST_SUITE_P(One, SelfCases, ::testing::ValuesIn(communicator_cases()),
                         [](const auto& test) { return test.param.name; });

// --- thread ranks only

TEST(ThreadRanks, SumInTheOrderOfATreeAndRoundOnce) {
  run_thread_ranks(7, [](Communicator& world) {
    // fp32 cannot represent 2^24 + 1, so ((big + 1) + 1) ... - big depends on the order of
    // additions.
    constexpr float kBig = 0x1p24f;
    const auto value = [](int rank) { return rank == 0 ? kBig : rank == 6 ? -kBig : 1.0f; };
    const float expected = tree_sum<float>(value, 0, 7);
    OwnedTensor fp32({5}, DType::f32);
    for (float& x : fp32.tensor.span<float>()) x = value(world.rank());
    world.all_reduce(fp32.tensor);
    for (const float x : fp32.tensor.span<float>()) EXPECT_EQ(x, expected);

    // In bf16, 256 + 1 is 256; in fp32, six of them sum to 262.
    OwnedTensor bf16({5}, DType::bf16);
    for (bfloat16& x : bf16.tensor.span<bfloat16>()) x = bfloat16(world.rank() == 0 ? 256.f : 1.f);
    world.all_reduce(bf16.tensor);
    for (const bfloat16 x : bf16.tensor.span<bfloat16>()) EXPECT_EQ(static_cast<float>(x), 262.f);
  });
}

TEST(ThreadRanks, RunManyCollectivesOnManyRanks) {
  run_thread_ranks(16, [](Communicator& world) {
    OwnedTensor owned({100}, DType::i64);
    for (int64_t step = 0; step < 200; ++step) {
      for (int64_t& x : owned.tensor.span<int64_t>()) x = step + world.rank();
      world.all_reduce(owned.tensor);
      ASSERT_EQ(owned.tensor.data<int64_t>()[99], 16 * step + 120);
    }
  });
}

TEST(ThreadRanks, AsyncCollectiveReturnsBeforeOthersCall) {
  std::atomic<bool> returned = false;
  run_thread_ranks(2, [&](Communicator& world) {
    OwnedTensor owned({100000}, DType::f32);
    if (world.rank() == 1) {
      while (!returned) std::this_thread::yield();
    }
    const auto pending = world.all_reduce_async(owned.tensor);
    if (world.rank() == 0) {
      EXPECT_FALSE(pending->progress());
      returned = true;
    }
    pending->wait();
  });
}

TEST(ThreadRanks, BarrierWaitsForAllRanks) {
  std::atomic<int> arrived = 0;
  run_thread_ranks(7, [&](Communicator& world) {
    ++arrived;
    world.barrier();
    EXPECT_EQ(arrived, 7);
  });
}

TEST(ThreadRanks, UseOneOpenMpThreadEach) {
  const int before = omp_get_max_threads();
  run_thread_ranks(3, [](Communicator&) { EXPECT_EQ(omp_get_max_threads(), 1); });
  EXPECT_EQ(omp_get_max_threads(), before);
}

TEST(ThreadRanks, RefuseZeroRanks) {
  EXPECT_THROW(run_thread_ranks(0, [](Communicator&) {}), Error);
}

// --- failures: nothing hangs, and the first error is reported

using Body = std::function<void(Communicator&)>;

std::string message_of_ranks(int size, const Body& body) {
  try {
    run_thread_ranks(size, body);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void fail_on(const Communicator& world, int rank) {
  if (world.rank() == rank) throw std::runtime_error("the real error");
}

TEST(ThreadRanks, ThrowingRankFreesOthers) {
  const auto sum = [](Communicator& world) {
    const OwnedTensor owned({10}, DType::f32);
    world.all_reduce(owned.tensor);
  };
  const auto async = [](Communicator& world) {
    const OwnedTensor owned({10}, DType::f32);
    world.all_reduce_async(owned.tensor)->wait();
  };
  const auto polled = [](Communicator& world) {
    const OwnedTensor owned({10}, DType::f32);
    const auto pending = world.all_reduce_async(owned.tensor);
    while (!pending->progress()) std::this_thread::yield();
  };
  const auto from_failed = [](Communicator& world) {
    const OwnedTensor owned({10}, DType::f32);
    const auto message = Communicator::Message::recv(owned.tensor, 2);
    world.exchange({&message, 1});
  };
  const auto to_failed = [](Communicator& world) {
    const OwnedTensor owned({10}, DType::f32);
    const auto message = Communicator::Message::send(owned.tensor, 2);
    world.exchange_async({&message, 1})->wait();
  };
  const auto in_group = [](Communicator& world) {  // rank 2 is in another group
    while (true) world.barrier();
  };
  for (const Body& blocking :
       {Body(sum), Body(async), Body(polled), Body(from_failed), Body(to_failed)}) {
    EXPECT_EQ(message_of_ranks(4,
                               [&](Communicator& world) {
                                 fail_on(world, 2);
                                 blocking(world);
                               }),
              "the real error");
  }
  EXPECT_EQ(message_of_ranks(4,
                             [&](Communicator& world) {
                               const auto group = world.split(world.rank() == 2, 0);
                               fail_on(world, 2);
                               in_group(*group);
                             }),
            "the real error");
}

TEST(ThreadRanks, ErrorPropagatesPastPendingCollectives) {
  const auto throw_while_pending = [](Communicator& world) {
    const OwnedTensor owned({10}, DType::f32);
    const OwnedTensor large({100000}, DType::f32);
    if (world.rank() != 1) {  // waits for a call that rank 1 never makes
      world.barrier();
    }
    const auto first = world.all_reduce_async(owned.tensor);
    const auto second = world.all_reduce_async(large.tensor);
    fail_on(world, 1);
    first->wait();
    second->wait();
  };
  EXPECT_THAT(message_of_ranks(3, throw_while_pending),
              ::testing::AnyOf("the real error", HasSubstr("disagree")));

  const auto others_wait = [](Communicator& world) {
    const OwnedTensor owned({100000}, DType::f32);
    const auto group = world.split(0, 0);
    if (world.rank() == 1) {
      const auto pending = world.all_reduce_async(owned.tensor);
      fail_on(world, 1);
    }
    group->barrier();
  };
  EXPECT_EQ(message_of_ranks(3, others_wait), "the real error");
}

TEST(ThreadRanks, ContinueAfterSharedError) {
  run_thread_ranks(4, [](Communicator& world) {
    EXPECT_THROW(all_or_none(world, [&] { fail_on(world, 3); }), SharedError);
    EXPECT_NO_THROW(world.barrier());
  });
}

TEST(ThreadRanks, EarlyReturningRankIsNamed) {
  const auto body = [](Communicator& world) {
    const OwnedTensor owned({3}, DType::f32);
    if (world.rank() != 2) world.all_reduce(owned.tensor);
  };
  const std::string message = message_of_ranks(3, body);
  EXPECT_THAT(message, HasSubstr("all_reduce(sum) of fp32 (3)"));
  EXPECT_THAT(message, HasSubstr("rank 2 has returned"));
}

TEST(ThreadRanks, MismatchedCollectivesAreNamed) {
  const auto expect = [](const Body& call, const std::string& rank_0, const std::string& rank_1) {
    run_thread_ranks(3, [&](Communicator& world) {  // every rank gets the error and can continue
      std::string message;
      try {
        call(world);
      } catch (const Error& error) {
        message = error.what();
      }
      EXPECT_THAT(message, HasSubstr("disagree"));
      if (message.find("rank 1 called") != std::string::npos) {
        EXPECT_THAT(message, HasSubstr("rank 1 called " + rank_1));
      }
      EXPECT_THAT(message, HasSubstr("called " + rank_0));
      EXPECT_NO_THROW(world.barrier());
    });
  };
  const auto with_shape = [](const Shape& one, const Shape& rest, DType dtype) {
    return [=](Communicator& world) {
      const OwnedTensor owned(world.rank() == 1 ? one : rest,
                              world.rank() == 1 ? dtype : DType::f32);
      world.all_reduce(owned.tensor);
    };
  };
  expect(with_shape({4}, {3}, DType::f32), "all_reduce(sum) of fp32 (3)",
         "all_reduce(sum) of fp32 (4)");
  expect(with_shape({3}, {3}, DType::i32), "all_reduce(sum) of fp32 (3)",
         "all_reduce(sum) of int32 (3)");
  expect(with_shape({2, 3}, {3, 2}, DType::f32), "all_reduce(sum) of fp32 (3, 2)",
         "all_reduce(sum) of fp32 (2, 3)");
  expect(
      [](Communicator& world) {
        const OwnedTensor owned({3}, DType::f32);
        world.all_reduce(owned.tensor, world.rank() == 1 ? ReduceOp::max : ReduceOp::sum);
      },
      "all_reduce(sum)", "all_reduce(max)");
  expect(
      [](Communicator& world) {
        const OwnedTensor owned({3}, DType::f32);
        world.broadcast(owned.tensor, world.rank() == 1 ? 1 : 0);
      },
      "broadcast from rank 0", "broadcast from rank 1");
  expect(
      [](Communicator& world) {
        const OwnedTensor owned({3}, DType::f32);
        if (world.rank() == 1) return world.barrier();
        world.all_reduce_async(owned.tensor)->wait();
      },
      "all_reduce_async(sum)", "barrier");
}

}  // namespace
}  // namespace tessera
