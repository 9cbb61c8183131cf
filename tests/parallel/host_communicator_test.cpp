#include "parallel/communicators/host/host_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/memory.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/parallel/communicator_cases.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Shared state of a host's ranks, for ranks that are threads: all of them are in this process.
struct SharedByThreads {
  explicit SharedByThreads(int ranks)
      : events(static_cast<size_t>(ranks)), parts(static_cast<size_t>(ranks)) {}

  std::unique_ptr<HostGroup> group(int rank) {
    std::vector<HostMember> members;
    for (size_t i = 0; i < parts.size(); ++i) {
      members.push_back({getpid(), &events[i], &parts[i]});
    }
    return std::make_unique<HostGroup>(rank, members);
  }

  std::unique_ptr<Communicator> communicator(Communicator& world) {
    auto thread = std::make_shared<ProgressThread>(events[static_cast<size_t>(world.rank())]);
    return make_host_communicator(world.split(0, world.rank()), group(world.rank()),
                                  {nullptr, std::move(thread)});
  }

  std::vector<HostEventCount> events;
  std::vector<HostRankPart> parts;
};

/// Calls `body` on `ranks` thread ranks that copy directly. They end together, like the processes
/// of a run.
void run_host_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  SharedByThreads shared(ranks);
  run_thread_ranks(ranks, [&](Communicator& world) {
    const auto direct = shared.communicator(world);
    body(*direct);
    world.barrier();
  });
}

/// Splits come from the communicator for messages, whose thread ranks do not use the host engine.
std::vector<CommunicatorCase> cases_without_names() {
  std::vector<CommunicatorCase> cases = communicator_cases();
  std::erase_if(cases, [](const CommunicatorCase& the_case) {
    return std::string(the_case.name) == "split_orders_by_key";
  });
  return cases;
}

class HostCases : public ::testing::TestWithParam<std::tuple<CommunicatorCase, int>> {};

TEST_P(HostCases, Hold) {
  const auto& [the_case, size] = GetParam();
  run_host_ranks(size, the_case.body);
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostCases,
                         ::testing::Combine(::testing::ValuesIn(cases_without_names()),
                                            ::testing::Values(1, 2, 3, 4, 7)),
                         name_of_case);

TEST(HostRanks, SumInRankOrderAndRoundOnceForAnySize) {
  // Below, at and above the size that is copied into a call, and several chunks with a remainder.
  for (const int64_t count : {5, 512, 513, 100'003, 1'000'003}) {
    run_host_ranks(7, [&](Communicator& group) {
      // fp32 cannot represent 2^24 + 1, so the sum depends on the order of additions.
      constexpr float kBig = 0x1p24f;
      const auto value = [](int rank) { return rank == 0 ? kBig : rank == 6 ? -kBig : 1.0f; };
      float expected = value(0);
      for (int rank = 1; rank < 7; ++rank) expected += value(rank);
      OwnedTensor fp32({count}, DType::f32);
      for (float& x : fp32.tensor.span<float>()) x = value(group.rank());
      group.all_reduce(fp32.tensor);
      for (const float x : fp32.tensor.span<float>()) ASSERT_EQ(x, expected);

      // In bf16, 256 + 1 is 256; in fp32, six of them sum to 262.
      OwnedTensor bf16({count}, DType::bf16);
      for (auto& x : bf16.tensor.span<bfloat16>()) x = bfloat16(group.rank() == 0 ? 256.f : 1.f);
      group.all_reduce(bf16.tensor);
      for (const auto x : bf16.tensor.span<bfloat16>()) ASSERT_EQ(static_cast<float>(x), 262.f);
    });
  }
}

TEST(HostRanks, AllowMorePendingCallsThanRingSlots) {
  run_host_ranks(3, [](Communicator& group) {
    std::vector<OwnedTensor> tensors;
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (int64_t i = 0; i < 3 * int64_t{HostRankPart::kRing}; ++i) {
      tensors.emplace_back(Shape{i % 2 == 0 ? 3 : 3000}, DType::i64);
      for (int64_t& x : tensors.back().tensor.span<int64_t>()) x = i + group.rank();
      pending.push_back(group.all_reduce_async(tensors.back().tensor));
    }
    for (size_t i = pending.size(); i-- > 0;) pending[i]->wait();
    for (size_t i = 0; i < tensors.size(); ++i) {
      for (const int64_t x : tensors[i].tensor.span<int64_t>()) {
        ASSERT_EQ(x, 3 * static_cast<int64_t>(i) + 3);
      }
    }
  });
}

TEST(HostRanks, AbortFreesWaitingRanks) {
  SharedByThreads shared(2);
  run_thread_ranks(2, [&](Communicator& world) {
    const auto group = shared.group(world.rank());
    if (world.rank() == 1) {
      group->abort();
      test::expect_error([&] { group->wait(group->start({})); }, {"was aborted"});
    } else {
      test::expect_error([&] { group->wait(group->start({})); },
                         {"rank 1 of a group of 2 has failed"});
      EXPECT_THROW(group->wait(group->start({})), PeerError) << "rank 1 has the cause";
    }
    world.barrier();
  });
}

TEST(HostRanks, WaitingRankRunsCallback) {
  SharedByThreads shared(2);
  std::atomic<int> looks{0};
  run_thread_ranks(2, [&](Communicator& world) {
    const auto group = shared.group(world.rank());
    if (world.rank() == 0) {
      group->set_while_waiting([&] { ++looks; });
    } else {
      while (looks < 3) std::this_thread::yield();
    }
    group->wait(group->start({}));
    world.barrier();
  });
}

TEST(HostRanks, MismatchedCollectivesAreNamed) {
  run_host_ranks(2, [](Communicator& group) {
    const OwnedTensor mine({group.rank() == 0 ? 3000 : 4000}, DType::f32);
    try {
      group.all_reduce(mine.tensor);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("different collectives"),
                                      HasSubstr("all_reduce(sum) of fp32 (3000)"),
                                      HasSubstr("all_reduce(sum) of fp32 (4000)")));
    }
    // Every later call fails too.
    EXPECT_THROW(group.barrier(), Error);
  });
}

}  // namespace
}  // namespace tessera
