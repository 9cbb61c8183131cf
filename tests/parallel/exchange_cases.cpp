#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/memory.h"
#include "tests/parallel/case_values.h"
#include "tests/parallel/communicator_cases.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Message = Communicator::Message;

struct Planned {
  int from, to;
  int64_t count;
};
using Plan = std::vector<Planned>;

/// Around the ring in both directions, with several messages of each pair.
Plan both_ways(int ranks) {
  Plan plan;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const int64_t count : {10007, 1, 0, 64}) plan.push_back({rank, (rank + 1) % ranks, count});
    plan.push_back({rank, (rank + ranks - 1) % ranks, 1001});
  }
  return plan;
}

/// Some ranks take no part, and the first and the last do different things.
Plan from_first_to_last(int ranks) {
  return {{0, ranks - 1, 3}, {0, ranks - 1, 1001}, {ranks - 1, 0, 1}};
}

Plan from_all_to_all(int ranks) {
  Plan plan;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) plan.push_back({from, to, (3 * from + to) % 4 * 100});
  }
  return plan;
}

/// A rank's messages of a plan. Their values say who sends them and which they are.
template <typename T>
struct Mine {
  std::vector<OwnedTensor> memory;
  std::vector<Message> messages;
  std::vector<std::pair<Tensor, Planned>> received;
  std::vector<int64_t> first;

  Mine(const Communicator& group, const Plan& plan) {
    int64_t number = 0;
    for (const Planned& planned : plan) {
      ++number;
      if (planned.from == group.rank()) {
        memory.push_back(filled<T>(planned.count, planned.from, number));
        messages.push_back(Message::send(memory.back().tensor, planned.to));
      }
      if (planned.to == group.rank()) {
        memory.push_back(filled<T>(planned.count, planned.to, number + 1));
        messages.push_back(Message::recv(memory.back().tensor, planned.from));
        received.emplace_back(memory.back().tensor, planned);
        first.push_back(number);
      }
    }
  }

  void expect_received(const Communicator& group) const {
    for (size_t i = 0; i < received.size(); ++i) {
      const auto& [tensor, planned] = received[i];
      expect_elements<T>(
          tensor, [&, from = planned.from](int64_t e) { return value_of(from, first[i] + e); },
          fmt::format("{}: message {} from rank {}", who(group), first[i], planned.from));
    }
  }
};

void exchanges_carry_all_messages(Communicator& group) {
  for (const Plan& plan : {both_ways(group.size()), from_first_to_last(group.size()),
                           from_all_to_all(group.size()), Plan{{0, group.size() - 1, 1 << 19}}}) {
    for_each_type([&]<typename T>() {
      const Mine<T> mine(group, plan);
      group.exchange(mine.messages);
      mine.expect_received(group);
    });
  }
}

// Exchanges and collectives are pending at once, and ranks wait for them in different orders.
void exchanges_can_be_pending(Communicator& group) {
  for (const Plan& plan : {both_ways(group.size()), from_first_to_last(group.size())}) {
    for_each_type([&]<typename T>() {
      const Mine<T> first(group, plan), second(group, plan);
      const OwnedTensor sums = filled<T>(1001, group.rank());
      const OwnedTensor more_sums = filled<T>(3, group.rank());
      std::vector<std::unique_ptr<PendingCollective>> pending;
      pending.push_back(group.exchange_async(first.messages));
      pending.push_back(group.all_reduce_async(sums.tensor));
      pending.push_back(group.exchange_async(second.messages));
      group.all_reduce(more_sums.tensor);
      if (group.rank() == 1) {
        while (!pending[2]->progress()) {
        }
      }
      for (size_t i = 0; i < pending.size(); ++i) {
        pending[(i + static_cast<size_t>(group.rank())) % pending.size()]->wait();
      }
      first.expect_received(group);
      second.expect_received(group);
      for (const Tensor& sum : {sums.tensor, more_sums.tensor}) {
        expect_elements<T>(
            sum, [&](int64_t i) { return sum_of_values(group.size(), i); }, who(group));
      }
    });
  }
}

// The first rank sends and receives in calls of their own, the last one in one call.
void messages_match_across_calls(Communicator& group) {
  const int last = group.size() - 1;
  if (last == 0) return;
  const Mine<float> mine(group, {{0, last, 1001}, {0, last, 64}, {last, 0, 10007}});
  if (group.rank() == 0) {
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (const Message& message : mine.messages) {
      pending.push_back(group.exchange_async({&message, 1}));
    }
  } else {
    group.exchange(mine.messages);
  }
  mine.expect_received(group);
}

void all_to_all_moves_rows(Communicator& group) {
  constexpr int64_t kWidth = 3;
  const int rank = group.rank();
  // Unequal counts, some of them 0, and none at all.
  for (const int most : {4, 1}) {
    const auto rows = [&](int from, int to) { return int64_t{(2 * from + 3 * to) % most}; };
    std::vector<int64_t> sent, received;
    int64_t num_sent = 0, num_received = 0;
    for (int peer = 0; peer < group.size(); ++peer) {
      num_sent += sent.emplace_back(rows(rank, peer));
      num_received += received.emplace_back(rows(peer, rank));
    }
    for (const bool waits : {true, false}) {
      const OwnedTensor input({num_sent, kWidth}, DType::f32),
          output({num_received, kWidth}, DType::f32);
      int64_t row = 0;
      for (int peer = 0; peer < group.size(); ++peer) {
        for (int64_t i = 0; i < rows(rank, peer) * kWidth; ++i) {
          input.tensor.data<float>()[row++] = static_cast<float>(100 * rank + 10 * peer + i);
        }
      }
      if (waits) {
        group.all_to_all(input.tensor, sent, output.tensor, received);
      } else {
        group.all_to_all_async(input.tensor, sent, output.tensor, received)->wait();
      }
      row = 0;
      for (int peer = 0; peer < group.size(); ++peer) {
        for (int64_t i = 0; i < rows(peer, rank) * kWidth; ++i) {
          EXPECT_EQ(output.tensor.data<float>()[row++],
                    static_cast<float>(100 * peer + 10 * rank + i));
        }
      }
    }
  }
}

void messages_that_do_not_match_fail_on_both_ranks(Communicator& group) {
  const OwnedTensor three({3}, DType::f32), five({5}, DType::f32), ints({3}, DType::i32);
  const int last = group.size() - 1;
  for (const auto& [sent, expected] :
       {std::pair(three.tensor, five.tensor), std::pair(five.tensor, three.tensor),
        std::pair(three.tensor, ints.tensor)}) {
    std::vector<Message> messages;
    if (group.rank() == 0) messages.push_back(Message::send(sent, last));
    if (group.rank() == last) messages.push_back(Message::recv(expected, 0));
    if (messages.empty()) continue;
    EXPECT_THAT(
        test::error_of([&] { group.exchange(messages); }),
        AllOf(HasSubstr(fmt::format("rank 0 sends {} ({})", to_string(sent.dtype()), sent.numel())),
              HasSubstr(fmt::format("to rank {}, which expects {} ({})", last,
                                    to_string(expected.dtype()), expected.numel()))));
  }
  group.barrier();
  const Mine<float> mine(group, both_ways(group.size()));
  group.exchange(mine.messages);
  mine.expect_received(group);
}

void wrong_messages_are_named(Communicator& group) {
  const OwnedTensor owned({2, 4}, DType::f32);
  const Tensor three = owned.tensor.view({8}).slice(0, 3);
  const Tensor overlapping = owned.tensor.view({8}).slice(2, 5);
  const int self = group.rank();
  const auto error = [&](const std::vector<Message>& messages) {
    return test::error_of([&] { (void)group.exchange_async(messages); });
  };
  EXPECT_THAT(error({Message::recv(three, group.size())}),
              HasSubstr(fmt::format("is {}, but the ranks of this group are 0 to", group.size())));
  EXPECT_THAT(error({Message::send(three, self)}), HasSubstr("pass both ends"));
  EXPECT_THAT(error({Message::send(three, 0), Message::recv(overlapping, 0)}),
              HasSubstr("overlap in memory"));
  EXPECT_THAT(error({Message::send(Tensor(), 0)}), HasSubstr("undefined"));
  const std::vector<int64_t> rows(static_cast<size_t>(group.size()), 1);
  EXPECT_THAT(
      test::error_of([&] { group.all_to_all(owned.tensor.slice(0, 0), rows, three, rows); }),
      HasSubstr("all_to_all: input is fp32 (0, 4)"));
}

}  // namespace

std::vector<CommunicatorCase> exchange_cases() {
  return {
      {"exchanges_carry_all_messages", exchanges_carry_all_messages},
      {"exchanges_can_be_pending", exchanges_can_be_pending},
      {"messages_match_across_calls", messages_match_across_calls},
      {"all_to_all_moves_rows", all_to_all_moves_rows},
      {"messages_that_do_not_match_fail_on_both_ranks",
       messages_that_do_not_match_fail_on_both_ranks},
      {"wrong_messages_are_named", wrong_messages_are_named},
  };
}

}  // namespace tessera
