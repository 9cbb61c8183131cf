#include "parallel/meta_communicator.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/memory.h"
#include "core/trace/work_log.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using Sums = TrafficTally::Sums;

Tensor on_meta(const Shape& shape) { return {nullptr, shape, DType::f32, kMeta}; }

TEST(MetaCommunicator, CountsTraffic) {
  MetaCommunicator group(2, 4);
  group.all_reduce(on_meta({5, 2}));
  group.all_reduce_async(on_meta({3}))->wait();
  group.all_gather(on_meta({6}), on_meta({24}));
  group.reduce_scatter(on_meta({8}), on_meta({2}));
  group.broadcast(on_meta({7}), 3);
  using Message = Communicator::Message;
  const std::vector<Message> messages = {
      Message::send(on_meta({1}), 0), Message::send(on_meta({4}), 3),
      Message::recv(on_meta({2}), 1), Message::send(on_meta({9}), 2),
      Message::recv(on_meta({9}), 2)};  // the last two to itself
  group.exchange(messages);
  group.exchange_async({&messages[2], 1})->wait();
  group.barrier();
  group.all_reduce(on_meta({0}));  // no elements, no traffic
  const auto of = [](Collective collective) { return std::pair(Traffic::counts, collective); };
  EXPECT_EQ(group.tally().sums(), (Sums{{of(Collective::all_reduce), {2, 40 + 12}},
                                        {of(Collective::all_gather), {1, 96}},
                                        {of(Collective::reduce_scatter), {1, 32}},
                                        {of(Collective::broadcast), {1, 28}},
                                        {of(Collective::exchange), {2, 20 + 8}},
                                        {of(Collective::barrier), {1, 0}}}));
  // On 4 ranks: 3/4 of the bytes, twice that for an all-reduce.
  EXPECT_EQ(group.tally().bytes_sent(), 1.5 * 52 + 0.75 * (96 + 32 + 28) + 28);
}

TEST(MetaCommunicator, ChecksArguments) {
  MetaCommunicator group(0, 2);
  test::expect_error([&] { group.all_gather(on_meta({2}), on_meta({3})); },
                     {"all_gather", "2 × 2 = 4 elements"});
  test::expect_error([&] { group.all_reduce(Tensor()); }, {"undefined"});
  test::expect_error([&] { (void)group.split(0, 0); }, {"cannot be split"});
  test::expect_error([] { MetaCommunicator(2, 2); }, {"rank 2 is not one of 2"});
  EXPECT_TRUE(group.tally().sums().empty());
}

TEST(MetaCommunicator, LeavesHostMemoryUnchanged) {
  const OwnedTensor values({2}, DType::f32);
  values.tensor.span<float>()[1] = 3.0f;
  MetaCommunicator group(0, 8);
  group.all_reduce(values.tensor);
  EXPECT_EQ(values.tensor.span<float>()[1], 3.0f);
  EXPECT_EQ(group.tally().sums().at({Traffic::counts, Collective::all_reduce}).bytes, 8);
}

TEST(MetaCommunicator, SingleRankHasNoTraffic) {
  MetaCommunicator group(0, 1);
  group.all_reduce(on_meta({5}));
  group.all_gather(on_meta({6}), on_meta({6}));
  EXPECT_TRUE(group.tally().sums().empty());
}

TEST(MetaCommunicator, LogsWhereCollectivesStartAndEnd) {
  using Kind = WorkLog::Event::Kind;
  WorkLog log;
  MetaCommunicator group(0, 4, "data"), alone(0, 1);
  {
    const WorkLog::Scope scope(&log);
    const auto pending = group.all_reduce_async(on_meta({10}));
    const TrafficScope traffic(Traffic::norm);
    EXPECT_FALSE(pending->progress());
    group.all_gather(on_meta({6}), on_meta({24}));
    alone.all_reduce(on_meta({10}));
    pending->wait();
    pending->wait();
    EXPECT_TRUE(pending->progress());
  }
  std::vector<std::pair<Kind, size_t>> order;
  for (const WorkLog::Event& event : log.events()) order.emplace_back(event.kind, event.transfer);
  EXPECT_EQ(order, (std::vector<std::pair<Kind, size_t>>{
                       {Kind::start, 0}, {Kind::start, 1}, {Kind::wait, 1}, {Kind::wait, 0}}));
  const WorkLog::Transfer& reduce = log.transfers()[0];
  EXPECT_EQ(reduce.group, "data");
  EXPECT_EQ(reduce.ranks, 4);
  EXPECT_EQ(reduce.purpose, "counts");
  EXPECT_EQ(reduce.collective, "all_reduce");
  EXPECT_EQ(reduce.bytes, 40);
  EXPECT_EQ(reduce.bytes_sent, 60.0);
  EXPECT_EQ(log.transfers()[1].purpose, "norm");
}

TEST(TrafficScopes, InnermostScopeLabelsTraffic) {
  MetaCommunicator group(0, 2);
  {
    const TrafficScope backward(Traffic::backward);
    group.all_reduce(on_meta({1}));
    {
      const TrafficScope again(Traffic::recompute);
      group.all_reduce(on_meta({2}));
    }
    group.all_reduce(on_meta({4}));
  }
  group.all_reduce(on_meta({8}));
  EXPECT_EQ(group.tally().bytes_sent(Traffic::backward), 4 * (1 + 4));
  EXPECT_EQ(group.tally().bytes_sent(Traffic::recompute), 4 * 2);
  EXPECT_EQ(group.tally().bytes_sent(Traffic::counts), 4 * 8);
  EXPECT_EQ(group.tally().bytes_sent(Traffic::norm), 0);
}

TEST(TrafficTally, RepeatsCountsAndDetectsOverflow) {
  TrafficTally tally(2);
  tally.add(Collective::all_reduce, 10);
  tally.repeat_since(TrafficTally(tally.ranks()), 7);
  EXPECT_EQ(tally.sums(), (Sums{{{Traffic::counts, Collective::all_reduce}, {7, 70}}}));
  test::expect_error([&] { tally.repeat_since(TrafficTally(tally.ranks()), INT64_MAX / 8); },
                     {"exceed 2^63 - 1"});
}

TEST(MetaGroups, MatchProcessGrid) {
  const MetaGroups meta(12, {.tensor = 3}, 7);  // 4 data × 3 tensor; rank 7 = 2 × 3 + 1
  EXPECT_EQ(meta.groups().tp->rank(), 1);
  EXPECT_EQ(meta.groups().tp->size(), 3);
  EXPECT_EQ(meta.groups().dp->rank(), 2);
  EXPECT_EQ(meta.groups().dp->size(), 4);
  EXPECT_EQ(meta.groups().world.rank(), 7);
  EXPECT_EQ(meta.groups().world.size(), 12);
  EXPECT_THROW(MetaGroups(4, {.tensor = 3}), Error);
}

}  // namespace
}  // namespace tessera
