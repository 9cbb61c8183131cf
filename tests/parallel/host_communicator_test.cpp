#include "parallel/communicators/host/host_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/memory.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/parallel/case_values.h"
#include "tests/parallel/communicator_cases.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Groups of thread ranks, whose communicators do not use the host engine.
class ThreadRanks final : public RankGroup {
 public:
  explicit ThreadRanks(std::unique_ptr<Communicator> world) : world_(std::move(world)) {}
  std::unique_ptr<Communicator> split(int color, int key) override {
    return world_->split(color, key);
  }
  std::string name() const override { return "threads that copy directly"; }

 private:
  std::unique_ptr<Communicator> world_;
};

/// A network between hosts that are simulated in this process. Messages between two ranks arrive
/// in order, each after a different number of polls.
class Network {
 public:
  std::unique_ptr<HostLink> link(int rank) { return std::make_unique<Link>(*this, rank); }

  /// Bytes and messages sent so far.
  int64_t bytes() const { return bytes_; }
  int64_t messages() const { return messages_; }

 private:
  using Message = std::vector<std::byte>;

  class Arriving final : public HostLink::Transfers {
   public:
    Arriving(Network& network, int rank) : network_(network), rank_(rank) {}

    void send(int rank, int tag, const void* data, size_t bytes) override {
      EXPECT_GE(tag, 1);
      EXPECT_LE(tag, HostLink::kTags);
      const auto* first = static_cast<const std::byte*>(data);
      const std::lock_guard lock(network_.mutex_);
      network_.sent_[{rank_, rank, tag}].emplace_back(first, first + bytes);
      network_.bytes_ += static_cast<int64_t>(bytes);
      ++network_.messages_;
    }

    void receive(int rank, int tag, void* data, size_t bytes) override {
      awaited_.push_back({{rank, rank_, tag}, data, bytes});
    }

    Progressable::Progress progress() override {
      // A poll that finds nothing although something may have arrived.
      if (!awaited_.empty() && ++polls_ % 3 != 0) return Progressable::Progress::nothing;
      const std::lock_guard lock(network_.mutex_);
      while (!awaited_.empty()) {
        const Awaited& next = awaited_.front();
        std::deque<Message>& arrived = network_.sent_[next.key];
        if (arrived.empty()) return Progressable::Progress::nothing;
        if (arrived.front().size() != next.bytes) throw Error("a message of another size");
        if (next.bytes > 0) std::memcpy(next.data, arrived.front().data(), next.bytes);
        arrived.pop_front();
        awaited_.pop_front();
      }
      return Progressable::Progress::finished;
    }

   private:
    struct Awaited {
      std::array<int, 3> key;  // from, to, tag
      void* data;
      size_t bytes;
    };
    Network& network_;
    int rank_;
    int polls_ = 0;
    std::deque<Awaited> awaited_;
  };

  class Link final : public HostLink {
   public:
    Link(Network& network, int rank) : network_(network), rank_(rank) {}
    std::unique_ptr<HostLink::Transfers> start() override {
      return std::make_unique<Arriving>(network_, rank_);
    }

   private:
    Network& network_;
    int rank_;
  };

  std::mutex mutex_;
  std::map<std::array<int, 3>, std::deque<Message>> sent_;
  std::atomic<int64_t> bytes_{0}, messages_{0};
};

/// The world rank of a group's rank is so many times its own.
constexpr int kWorldRanks = 10;

/// Shared state of ranks on one or several hosts, for ranks that are threads of this process.
struct SharedByThreads {
  explicit SharedByThreads(int ranks)
      : SharedByThreads(std::vector<int>(static_cast<size_t>(ranks), 0)) {}
  explicit SharedByThreads(const std::vector<int>& hosts)
      : layout(hosts),
        events(hosts.size()),
        parts(hosts.size()),
        slots(hosts.size() * hosts.size()) {}

  std::unique_ptr<HostGroup> group(int rank) {
    std::vector<HostMember> members;
    for (const int member : layout.ranks_of(layout.host_of(rank))) {
      const auto i = static_cast<size_t>(member);
      members.push_back(
          {getpid(), &events[i], &parts[i], &slots[i * parts.size()], kWorldRanks * member});
    }
    return std::make_unique<HostGroup>(layout, rank, std::move(members),
                                       layout.hosts() > 1 ? network.link(rank) : nullptr);
  }

  std::unique_ptr<Communicator> communicator(Communicator& world) {
    auto thread = std::make_shared<ProgressThread>(events[static_cast<size_t>(world.rank())]);
    return make_host_communicator(std::make_unique<ThreadRanks>(world.split(0, world.rank())),
                                  group(world.rank()), {nullptr, std::move(thread)});
  }

  HostLayout layout;
  Network network;
  std::vector<HostEventCount> events;
  std::vector<HostRankPart> parts;
  std::vector<HostSlot> slots;
};

/// Calls `body` on thread ranks that copy directly. They end together, like the processes of a run.
void run_host_ranks(SharedByThreads& shared, const std::function<void(Communicator&)>& body) {
  run_thread_ranks(shared.layout.ranks(), [&](Communicator& world) {
    const auto direct = shared.communicator(world);
    body(*direct);
    world.barrier();
  });
}

void run_host_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  SharedByThreads shared(ranks);
  run_host_ranks(shared, body);
}

/// The host of each rank: as many as there are, uneven, not neighbors, and every rank by itself.
const std::vector<std::vector<int>> kPlacements = {
    {0, 1},       {0, 0, 1},          {0, 0, 1, 1},          {0, 1, 0, 1},       {0, 0, 0, 1},
    {0, 1, 1, 1}, {0, 0, 1, 1, 2, 2}, {0, 0, 0, 1, 1, 2, 2}, {2, 0, 1, 0, 2, 0}, {0, 1, 2, 3}};

std::string name_of(const std::vector<int>& placement) {
  std::string name = "hosts";
  for (const int host : placement) name += "_" + std::to_string(host);
  return name;
}

/// Splits are groups of thread ranks, which do not use the host engine.
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

class SeveralHosts
    : public ::testing::TestWithParam<std::tuple<CommunicatorCase, std::vector<int>>> {};

TEST_P(SeveralHosts, Hold) {
  const auto& [the_case, placement] = GetParam();
  SharedByThreads shared(placement);
  run_host_ranks(shared, the_case.body);
}

constexpr auto name_of_placed_case = [](const auto& instance) {
  const auto& [the_case, placement] = instance.param;
  return std::string(the_case.name) + "_" + name_of(placement);
};

INSTANTIATE_TEST_SUITE_P(Placements, SeveralHosts,
                         ::testing::Combine(::testing::ValuesIn(cases_without_names()),
                                            ::testing::ValuesIn(kPlacements)),
                         name_of_placed_case);

/// All bytes of a rank's results of collectives on random numbers, of sizes below, at and above
/// those at which the algorithm changes.
template <typename T>
void append_results(Communicator& group, std::vector<std::byte>& results) {
  std::mt19937 random(static_cast<unsigned>(group.rank() + 1));
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  const auto append = [&](const Tensor& tensor) {
    const auto* first = static_cast<const std::byte*>(tensor.raw());
    results.insert(results.end(), first, first + tensor.bytes());
  };
  for (const int64_t count : {1, 7, 512, 513, 9001}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      const OwnedTensor whole({group.size(), count}, dtype_of<T>());
      const OwnedTensor part({count}, dtype_of<T>());
      for (T& x : whole.tensor.span<T>()) x = static_cast<T>(uniform(random));
      group.reduce_scatter(whole.tensor, part.tensor, op);
      append(part.tensor);
      const auto pending = group.all_reduce_async(whole.tensor, op);
      pending->wait();
      append(whole.tensor);
      group.all_gather(part.tensor, whole.tensor);
      append(whole.tensor);
      group.broadcast(whole.tensor, group.size() - 1);
    }
  }
}

std::vector<std::vector<std::byte>> results_on(const std::vector<int>& placement) {
  SharedByThreads shared(placement);
  std::vector<std::vector<std::byte>> results(placement.size());
  run_host_ranks(shared, [&](Communicator& group) {
    std::vector<std::byte>& mine = results[static_cast<size_t>(group.rank())];
    append_results<float>(group, mine);
    append_results<bfloat16>(group, mine);
    append_results<double>(group, mine);
  });
  return results;
}

TEST(HostRanks, GiveTheSameBitsForAnyPlacement) {
  for (const std::vector<int>& placement : kPlacements) {
    const std::vector<int> one_host(placement.size(), 0);
    EXPECT_TRUE(results_on(placement) == results_on(one_host)) << name_of(placement);
  }
}

/// Bytes between hosts of a call on `count` elements per rank.
int64_t bytes_of(const std::vector<int>& placement, DType dtype, int64_t count,
                 const std::function<void(Communicator&, Tensor, Tensor)>& call) {
  SharedByThreads shared(placement);
  run_host_ranks(shared, [&](Communicator& group) {
    const OwnedTensor whole({group.size(), count}, dtype);
    const OwnedTensor part({count}, dtype);
    call(group, whole.tensor, part.tensor);
  });
  return shared.network.bytes();
}

TEST(HostRanks, SendTheFewestBytesBetweenHosts) {
  const auto all_reduce = [](Communicator& group, Tensor whole, Tensor) {
    group.all_reduce(whole);
  };
  const auto reduce_scatter = [](Communicator& group, Tensor whole, Tensor part) {
    group.reduce_scatter(whole, part);
  };
  const auto all_gather = [](Communicator& group, Tensor whole, Tensor part) {
    group.all_gather(part, whole);
  };
  const auto broadcast = [](Communicator& group, Tensor whole, Tensor) {
    group.broadcast(whole, 1);
  };
  constexpr int64_t kCount = 1600;
  constexpr auto kFloat = int64_t{sizeof(float)};
  for (const std::vector<int>& placement :
       {std::vector{0, 0, 1, 1}, {0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 0, 1, 1, 1, 1}, {0, 1, 2}}) {
    SCOPED_TRACE(name_of(placement));
    const auto ranks = static_cast<int64_t>(placement.size());
    const int64_t others = HostLayout(placement).hosts() - 1;
    const int64_t bytes = ranks * kCount * kFloat;
    EXPECT_EQ(bytes_of(placement, DType::f32, kCount, all_reduce), 2 * others * bytes);
    EXPECT_EQ(bytes_of(placement, DType::f32, kCount, reduce_scatter), others * bytes);
    EXPECT_EQ(bytes_of(placement, DType::f32, kCount, all_gather), others * bytes);
    EXPECT_EQ(bytes_of(placement, DType::f32, kCount, broadcast), others * bytes);
  }
  // Sums of two ranks travel as fp32, results as bf16.
  EXPECT_EQ(bytes_of({0, 0, 1, 1}, DType::bf16, kCount, all_reduce), 4 * kCount * (4 + 2));
  // Ranks 0 to 2 send the sum of two and the third: ranks that are no neighbors cannot be summed.
  EXPECT_EQ(bytes_of({0, 0, 0, 1, 1, 1}, DType::f32, kCount, reduce_scatter),
            2 * 6 * kCount * kFloat);
  EXPECT_EQ(bytes_of({0, 1, 0, 1}, DType::f32, kCount, reduce_scatter), 2 * 4 * kCount * kFloat);
}

TEST(HostLayout, PlacesRanks) {
  const HostLayout layout({7, 7, 7, 2, 2, 7});
  EXPECT_EQ(layout.hosts(), 2);
  EXPECT_THAT(layout.ranks_of(0), ElementsAre(0, 1, 2, 5));
  EXPECT_THAT(layout.ranks_of(1), ElementsAre(3, 4));
  EXPECT_EQ(layout.index_on_host(5), 3);
  // ((0 + 1) + (2 + 3)) + (4 + 5)
  EXPECT_THAT(layout.subtrees(0), ElementsAre(Range{0, 2}, Range{2, 3}, Range{5, 6}));
  EXPECT_THAT(layout.subtrees(1), ElementsAre(Range{3, 4}, Range{4, 5}));
  EXPECT_EQ(layout.carrier(5, 1), 4);
  EXPECT_EQ(layout.carrier(4, 0), 1);
  EXPECT_THAT(HostLayout::one_host(5).subtrees(0), ElementsAre(Range{0, 5}));
}

TEST(HostRanks, SumInTheOrderOfATreeAndRoundOnceForAnySize) {
  // Below, at and above the size that is copied into a call, and several chunks with a remainder.
  for (const int64_t count : {5, 512, 513, 100'003, 1'000'003}) {
    run_host_ranks(7, [&](Communicator& group) {
      // fp32 cannot represent 2^24 + 1, so the sum depends on the order of additions.
      constexpr float kBig = 0x1p24f;
      const auto value = [](int rank) { return rank == 0 ? kBig : rank == 6 ? -kBig : 1.0f; };
      const float expected = tree_sum<float>(value, 0, 7);
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
      test::expect_error([&] { group->wait(group->start({})); }, {"rank 10 has failed"});
      EXPECT_THROW(group->wait(group->start({})), PeerError) << "rank 1 has the cause";
    }
    world.barrier();
  });
}

// Rank 0's message to rank 2 is left when that to rank 1 does not match.
TEST(HostRanks, AMismatchEndsTheRanksOfOtherMessages) {
  for (const std::vector<int>& placement : {std::vector{0, 0, 0}, {0, 1, 0}}) {
    SharedByThreads shared(placement);
    run_host_ranks(shared, [](Communicator& group) {
      using Message = Communicator::Message;
      const OwnedTensor one({1}, DType::f32), two({2}, DType::f32);
      if (group.rank() == 0) {
        const std::array messages = {Message::send(one.tensor, 1), Message::recv(two.tensor, 2)};
        test::expect_error([&] { group.exchange(messages); }, {"rank 0 sends", "to rank 1"});
        EXPECT_THROW(group.barrier(), PeerError);
      } else if (group.rank() == 1) {
        const Message message = Message::recv(two.tensor, 0);
        test::expect_error([&] { group.exchange({&message, 1}); }, {"rank 0 sends", "to rank 1"});
      } else {
        EXPECT_THROW(group.barrier(), PeerError);
      }
    });
  }
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
