#include "tests/parallel/communicator_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "core/error.h"
#include "core/memory.h"
#include "parallel/exchange.h"
#include "parallel/host_threads.h"
#include "parallel/process_grid.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr std::array kDTypes = {DType::f32, DType::bf16, DType::f64,
                                DType::i32, DType::i64,  DType::u8};
// Below, at and above the sizes at which communicators change what they do.
constexpr std::array<int64_t, 5> kCounts = {1, 3, 64, 1001, 10007};

/// Calls body.operator()<T>() for every dtype.
template <typename Body>
void for_each_type(Body&& body) {
  body.template operator()<float>();
  body.template operator()<bfloat16>();
  body.template operator()<double>();
  body.template operator()<int32_t>();
  body.template operator()<int64_t>();
  body.template operator()<uint8_t>();
}

// Small whole numbers: their sums over up to 7 ranks are exact in every dtype.
int value_of(int rank, int64_t i) { return (rank + 1) * static_cast<int>(i % 5 + 1); }

int sum_of_values(int ranks, int64_t i) { return ranks * (ranks + 1) / 2 * value_of(0, i); }

template <typename T>
T number(int value) {
  if constexpr (std::is_same_v<T, bfloat16>) return bfloat16(static_cast<float>(value));
  return static_cast<T>(value);
}

double to_double(bfloat16 value) { return static_cast<double>(static_cast<float>(value)); }
template <typename T>
double to_double(T value) {
  return static_cast<double>(value);
}

template <typename T>
OwnedTensor filled(int64_t count, int rank, int64_t first = 0) {
  OwnedTensor owned({count}, dtype_of<T>());
  T* data = owned.tensor.data<T>();
  for (int64_t i = 0; i < count; ++i) data[i] = number<T>(value_of(rank, first + i));
  return owned;
}

/// Expects tensor[i] == expected(i) everywhere, and reports the first difference only.
template <typename T, typename Expected>
void expect_elements(const Tensor& tensor, Expected&& expected, const std::string& what) {
  const T* data = tensor.data<T>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double found = to_double(data[i]);
    if (found == static_cast<double>(expected(i))) continue;
    ADD_FAILURE() << what << ": element " << i << " of " << describe(tensor) << " is " << found
                  << ", expected " << expected(i);
    return;
  }
}

std::string who(const Communicator& group) {
  return fmt::format("rank {} of {}", group.rank(), group.size());
}

template <typename Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// --- reductions
// -----------------------------------------------------------------------------------

void all_reduce_sums(Communicator& group) {
  for_each_type([&]<typename T>() {
    for (const int64_t count : kCounts) {
      const OwnedTensor mine = filled<T>(count, group.rank());
      group.all_reduce(mine.tensor);
      expect_elements<T>(
          mine.tensor, [&](int64_t i) { return sum_of_values(group.size(), i); }, who(group));
    }
  });
}

void all_reduce_takes_the_max(Communicator& group) {
  for_each_type([&]<typename T>() {
    for (const int64_t count : kCounts) {
      // Every rank is the largest somewhere.
      const OwnedTensor mine = filled<T>(count, group.rank());
      for (int64_t i = group.rank(); i < count; i += group.size()) {
        mine.tensor.data<T>()[i] = number<T>(100);
      }
      group.all_reduce(mine.tensor, ReduceOp::max);
      expect_elements<T>(
          mine.tensor, [](int64_t) { return 100; }, who(group));
    }
  });
}

void max_of_negative_numbers(Communicator& group) {
  OwnedTensor mine({3}, DType::f32);
  for (float& x : mine.tensor.span<float>()) x = -1.0f - static_cast<float>(group.rank());
  mine.tensor.data<float>()[2] = -std::numeric_limits<float>::infinity();
  group.all_reduce(mine.tensor, ReduceOp::max);
  EXPECT_EQ(mine.tensor.data<float>()[0], -1.0f);
  EXPECT_EQ(mine.tensor.data<float>()[2], -std::numeric_limits<float>::infinity());
}

template <typename T>
void expect_nan_stays(Communicator& group, T nan) {
  for (int owner = 0; owner < group.size(); ++owner) {
    const OwnedTensor mine = filled<T>(3, group.rank());
    if (group.rank() == owner) mine.tensor.data<T>()[1] = nan;
    group.all_reduce(mine.tensor, ReduceOp::max);
    EXPECT_TRUE(std::isnan(to_double(mine.tensor.data<T>()[1]))) << who(group);
    EXPECT_FALSE(std::isnan(to_double(mine.tensor.data<T>()[2]))) << who(group);
  }
}

void max_keeps_nan(Communicator& group) {
  expect_nan_stays(group, std::numeric_limits<float>::quiet_NaN());
  expect_nan_stays(group, std::numeric_limits<double>::quiet_NaN());
  expect_nan_stays(group, bfloat16(std::numeric_limits<float>::quiet_NaN()));
}

template <typename T>
void expect_same_bits(Communicator& group, int64_t count) {
  std::mt19937 random(static_cast<unsigned>(group.rank() + 1));
  std::normal_distribution<float> normal;
  OwnedTensor mine({count}, dtype_of<T>());
  for (T& x : mine.tensor.span<T>()) x = static_cast<T>(normal(random));
  group.all_reduce(mine.tensor);
  OwnedTensor root({count}, dtype_of<T>());
  std::memcpy(root.tensor.raw(), mine.tensor.raw(), mine.tensor.bytes());
  group.broadcast(root.tensor, 0);
  EXPECT_EQ(std::memcmp(root.tensor.raw(), mine.tensor.raw(), mine.tensor.bytes()), 0)
      << who(group) << " has other bits than rank 0 in the sum of " << describe(mine.tensor);
}

void sums_are_the_same_bits_on_all_ranks(Communicator& group) {
  for (const int64_t count : kCounts) {
    expect_same_bits<float>(group, count);
    expect_same_bits<bfloat16>(group, count);
    expect_same_bits<double>(group, count);
  }
}

void bf16_sums_round_at_most_once_a_rank(Communicator& group) {
  constexpr int64_t kCount = 501;
  std::mt19937 random(7);  // every rank draws the numbers of all
  std::uniform_real_distribution<float> uniform(0.5f, 1.0f);
  std::vector<double> exact(kCount, 0.0);
  OwnedTensor mine({kCount}, DType::bf16);
  for (int rank = 0; rank < group.size(); ++rank) {
    for (size_t i = 0; i < kCount; ++i) {
      const bfloat16 value(uniform(random));
      exact[i] += to_double(value);
      if (rank == group.rank()) mine.tensor.span<bfloat16>()[i] = value;
    }
  }
  group.all_reduce(mine.tensor);
  for (size_t i = 0; i < kCount; ++i) {
    // size - 1 roundings to nearest of sums that are no larger than the last, with 8 bits each, and
    // as little again for how an error grows in later sums.
    const double bound = 2.0 * (group.size() - 1) * exact[i] * 0x1p-9;
    EXPECT_NEAR(to_double(mine.tensor.span<bfloat16>()[i]), exact[i], bound) << who(group);
  }
}

void reduce_scatter_gives_every_rank_its_part(Communicator& group) {
  for_each_type([&]<typename T>() {
    for (const int64_t count : kCounts) {
      const OwnedTensor input = filled<T>(count * group.size(), group.rank());
      const OwnedTensor output({count}, dtype_of<T>());
      const int64_t first = count * group.rank();
      group.reduce_scatter(input.tensor, output.tensor);
      expect_elements<T>(
          output.tensor, [&](int64_t i) { return sum_of_values(group.size(), first + i); },
          who(group));
      expect_elements<T>(
          input.tensor, [&](int64_t i) { return value_of(group.rank(), i); }, who(group));
      group.reduce_scatter(input.tensor, output.tensor, ReduceOp::max);
      expect_elements<T>(
          output.tensor, [&](int64_t i) { return value_of(group.size() - 1, first + i); },
          who(group));
    }
  });
}

// --- copies
// ---------------------------------------------------------------------------------------

void all_gather_joins_in_the_order_of_ranks(Communicator& group) {
  for_each_type([&]<typename T>() {
    for (const int64_t count : kCounts) {
      const OwnedTensor input = filled<T>(count, group.rank());
      const OwnedTensor output({group.size(), count}, dtype_of<T>());
      group.all_gather(input.tensor, output.tensor);
      expect_elements<T>(
          output.tensor,
          [&](int64_t i) { return value_of(static_cast<int>(i / count), i % count); }, who(group));
    }
  });
}

void broadcast_from_every_root(Communicator& group) {
  for_each_type([&]<typename T>() {
    for (int root = 0; root < group.size(); ++root) {
      const OwnedTensor mine = filled<T>(1001, group.rank());
      group.broadcast(mine.tensor, root);
      expect_elements<T>(
          mine.tensor, [&](int64_t i) { return value_of(root, i); }, who(group));
    }
  });
}

// Around a ring, where the even ranks (and of an odd number not the last) send first.
void messages_arrive_in_order(Communicator& group) {
  if (group.size() == 1) return;
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  const bool sends_first = group.rank() % 2 == 0 && group.rank() + 1 < group.size();
  for_each_type([&]<typename T>() {
    for (const int64_t count : kCounts) {
      const OwnedTensor first = filled<T>(count, group.rank());
      const OwnedTensor second = filled<T>(count, group.rank(), 1);
      const OwnedTensor received_first({count}, dtype_of<T>());
      const OwnedTensor received_second({count}, dtype_of<T>());
      const auto send = [&] {
        group.send(first.tensor, next);
        group.send(second.tensor, next);
      };
      if (sends_first) send();
      group.recv(received_first.tensor, previous);
      group.recv(received_second.tensor, previous);
      if (!sends_first) send();
      expect_elements<T>(
          received_first.tensor, [&](int64_t i) { return value_of(previous, i); }, who(group));
      expect_elements<T>(
          received_second.tensor, [&](int64_t i) { return value_of(previous, i + 1); }, who(group));
    }
  });
}

void a_message_of_another_size_is_an_error(Communicator& group) {
  if (group.size() == 1) return;
  const OwnedTensor three({3}, DType::f32);
  const OwnedTensor five({5}, DType::f32);
  for (const auto& [sent, received] :
       {std::pair(three.tensor, five.tensor), std::pair(five.tensor, three.tensor)}) {
    if (group.rank() == 0) {
      try {
        group.send(sent, 1);
      } catch (const Error&) {  // where a send waits for its recv it fails too
      }
    } else if (group.rank() == 1) {
      EXPECT_THROW(group.recv(received, 0), Error);
    }
  }
  group.barrier();
}

// --- pending collectives
// --------------------------------------------------------------------------

void several_can_be_pending(Communicator& group) {
  for_each_type([&]<typename T>() {
    std::vector<OwnedTensor> tensors;
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (const int64_t count : kCounts) tensors.push_back(filled<T>(count, group.rank()));
    for (const OwnedTensor& owned : tensors) {
      pending.push_back(group.all_reduce_async(owned.tensor));
    }
    // The ranks wait in different orders, and once more than needed.
    const auto n = pending.size();
    for (size_t i = 0; i <= n; ++i) {
      pending[(i + static_cast<size_t>(group.rank())) % n]->wait();
    }
    for (const OwnedTensor& owned : tensors) {
      expect_elements<T>(
          owned.tensor, [&](int64_t i) { return sum_of_values(group.size(), i); }, who(group));
    }
  });
}

void pending_and_blocking_collectives_mix(Communicator& group) {
  const OwnedTensor first = filled<float>(10007, group.rank());
  const OwnedTensor second = filled<float>(7, group.rank());
  const OwnedTensor blocking = filled<float>(1001, group.rank());
  const auto pending_first = group.all_reduce_async(first.tensor, ReduceOp::max);
  const auto pending_second = group.all_reduce_async(second.tensor);
  group.all_reduce(blocking.tensor);
  group.barrier();
  while (!pending_second->progress() || !pending_first->progress()) {
  }
  EXPECT_TRUE(pending_first->progress());
  const auto sum = [&](int64_t i) { return sum_of_values(group.size(), i); };
  expect_elements<float>(
      first.tensor, [&](int64_t i) { return value_of(group.size() - 1, i); }, who(group));
  expect_elements<float>(second.tensor, sum, who(group));
  expect_elements<float>(blocking.tensor, sum, who(group));
}

void a_pending_collective_ends_with_its_handle(Communicator& group) {
  const OwnedTensor mine = filled<double>(1001, group.rank());
  { const auto pending = group.all_reduce_async(mine.tensor); }
  expect_elements<double>(
      mine.tensor, [&](int64_t i) { return sum_of_values(group.size(), i); }, who(group));
}

// --- groups
// ---------------------------------------------------------------------------------------

int sum_over(Communicator& group, int value) {
  OwnedTensor owned({1}, DType::i32);
  owned.tensor.data<int32_t>()[0] = value;
  group.all_reduce(owned.tensor);
  return owned.tensor.data<int32_t>()[0];
}

void split_orders_by_key(Communicator& group) {
  const auto reversed = group.split(-3, -group.rank());
  EXPECT_EQ(reversed->size(), group.size());
  EXPECT_EQ(reversed->rank(), group.size() - 1 - group.rank());
  EXPECT_EQ(reversed->name(), group.name());
  const auto same = group.split(0, 0);
  EXPECT_EQ(same->rank(), group.rank()) << "equal keys keep the order";
  const auto alone = group.split(group.rank() - 1, 0);
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(sum_over(*alone, 5), 5);
}

void split_makes_groups_that_do_not_meet(Communicator& group) {
  const int parity = group.rank() % 2;
  const auto half = group.split(parity == 0 ? std::numeric_limits<int>::min() : 1000, 0);
  int expected = 0;
  for (int rank = parity; rank < group.size(); rank += 2) expected += 1 << rank;
  EXPECT_EQ(sum_over(*half, 1 << group.rank()), expected) << who(group);
  // The halves do different numbers of collectives, and each is split again.
  for (int i = 0; i < 3 + parity; ++i) half->barrier();
  const auto quarter = half->split(half->rank() % 2, -half->rank());
  int members = 0;
  for (int rank = half->rank() % 2; rank < half->size(); rank += 2) members += 1;
  EXPECT_EQ(sum_over(*quarter, 1), members) << who(group);
  group.barrier();
}

void groups_of_a_grid(Communicator& group) {
  for (int tensor = 1; tensor <= group.size(); ++tensor) {
    if (group.size() % tensor != 0) continue;
    const ParallelGroups groups = make_parallel_groups(group, tensor);
    const GridPlace place = groups.grid.place_of(group.rank());
    EXPECT_EQ(groups.tp->size(), tensor);
    EXPECT_EQ(groups.tp->rank(), place.tensor_index);
    EXPECT_EQ(groups.dp->size(), group.size() / tensor);
    EXPECT_EQ(groups.dp->rank(), place.data_index);
    const OwnedTensor mine = filled<float>(1001, group.rank());
    const auto pending = groups.dp->all_reduce_async(mine.tensor);
    int expected = 0;
    for (const int rank : groups.grid.tensor_group(place.data_index)) expected += 1 << rank;
    EXPECT_EQ(sum_over(*groups.tp, 1 << group.rank()), expected) << who(group);
    pending->wait();
    int factor = 0;
    for (const int rank : groups.grid.data_group(place.tensor_index)) factor += rank + 1;
    expect_elements<float>(
        mine.tensor, [&](int64_t i) { return factor * value_of(0, i); }, who(group));
  }
}

// --- arguments
// ------------------------------------------------------------------------------------

void wrong_arguments_are_named(Communicator& group) {
  const OwnedTensor three({3}, DType::f32);
  const OwnedTensor wrong({3 * group.size() + 1}, DType::f32);
  const OwnedTensor gathered_i32({3 * group.size()}, DType::i32);
  const OwnedTensor block({8, group.size()}, DType::f32);

  EXPECT_THAT(message_of([&] { group.all_reduce(Tensor()); }), HasSubstr("all_reduce: tensor"));
  EXPECT_THAT(message_of([&] { group.all_gather(three.tensor, wrong.tensor); }),
              HasSubstr(fmt::format("{} × 3 = {} elements", group.size(), 3 * group.size())));
  EXPECT_THAT(message_of([&] { group.all_gather(three.tensor, gathered_i32.tensor); }),
              HasSubstr("output is int32"));
  EXPECT_THAT(message_of([&] { group.reduce_scatter(wrong.tensor, three.tensor); }),
              HasSubstr("reduce_scatter: output is fp32 (3)"));
  EXPECT_THAT(message_of([&] {
                const Tensor all = block.tensor.slice(0, 4);
                group.all_gather(block.tensor.view({8 * group.size()}).slice(1, 5), all);
              }),
              HasSubstr("overlap"));
  EXPECT_THAT(message_of([&] { group.broadcast(three.tensor, group.size()); }),
              HasSubstr(fmt::format("root is {0}, but the ranks of this group are 0 to {1}",
                                    group.size(), group.size() - 1)));
  EXPECT_THAT(message_of([&] { group.recv(three.tensor, -1); }), HasSubstr("source is -1"));
  EXPECT_THAT(message_of([&] { group.send(three.tensor, group.rank()); }), HasSubstr("itself"));
  const Tensor meta(nullptr, {3 * group.size()}, DType::f32, kMeta);
  EXPECT_THAT(message_of([&] { group.all_gather(three.tensor, meta); }), HasSubstr("on meta"));
  const Tensor lost(nullptr, {3}, DType::f32, kCpu);
  EXPECT_THAT(message_of([&] { group.all_reduce(lost); }), HasSubstr("has no data"));
}

void meta_and_empty_tensors_need_no_other_rank(Communicator& group) {
  if (group.rank() != 0) return;
  for (const DType dtype : kDTypes) {
    const Tensor meta(nullptr, {3}, dtype, kMeta);
    const Tensor meta_all(nullptr, {group.size(), 3}, dtype, kMeta);
    const Tensor empty(nullptr, {0, 3}, dtype, kCpu);
    group.all_reduce(meta);
    EXPECT_TRUE(group.all_reduce_async(meta)->progress());
    group.all_gather(meta, meta_all);
    group.reduce_scatter(meta_all, meta);
    group.broadcast(meta, group.size() - 1);
    group.all_reduce(empty);
    group.all_reduce_async(empty, ReduceOp::max)->wait();
    group.all_gather(empty, empty);
    const Tensor wrong(nullptr, {group.size(), 4}, dtype, kMeta);
    EXPECT_THROW(group.all_gather(meta, wrong), Error) << "checked all the same";
  }
}

// --- texts and errors
// -----------------------------------------------------------------------------

void strings_travel(Communicator& group) {
  const auto text_of = [](int rank) {
    return std::string(static_cast<size_t>(rank) * 3, 'a') + std::string(1, '\0');
  };
  const std::vector<std::string> texts = all_gather_strings(group, text_of(group.rank()));
  EXPECT_EQ(texts.size(), static_cast<size_t>(group.size()));
  for (int rank = 0; rank < group.size(); ++rank) {
    EXPECT_EQ(texts[static_cast<size_t>(rank)], text_of(rank));
    EXPECT_EQ(broadcast_string(group, text_of(group.rank()), rank), text_of(rank));
  }
  EXPECT_EQ(all_gather_strings(group, ""), std::vector<std::string>(texts.size()));
  EXPECT_EQ(broadcast_string(group, "", 0), "");
}

void an_error_of_one_rank_is_one_of_all(Communicator& group) {
  EXPECT_NO_THROW(raise_on_all(group, ""));
  const int last = group.size() - 1;
  const std::string one =
      message_of([&] { raise_on_all(group, group.rank() == last ? "no such file" : ""); });
  EXPECT_EQ(one, group.size() == 1 ? "no such file"
                                   : fmt::format("rank {} of {}: no such file", last, last + 1));

  const std::string all =
      message_of([&] { all_or_none(group, [&] { fail("rank {} has no memory", group.rank()); }); });
  EXPECT_EQ(all, group.size() == 1
                     ? "rank 0 has no memory"
                     : fmt::format("all {} ranks, of which the first: rank 0 has no memory",
                                   group.size()));
  if (group.size() >= 4) {
    EXPECT_EQ(message_of([&] { raise_on_all(group, group.rank() % 3 == 0 ? "" : "late"); }),
              fmt::format("ranks {} of {}, of which the first: late",
                          group.size() == 4 ? "1, 2" : "1, 2, 4, 5", group.size()));
  }
  bool ran = false;
  EXPECT_NO_THROW(all_or_none(group, [&] { ran = true; }));
  EXPECT_TRUE(ran);
}

void threads_of_the_host_are_shared(Communicator& group) {
  const HostThreads chosen = apply_host_threads(group);
  EXPECT_GE(chosen.threads, 1);
  EXPECT_THAT(chosen.summary, HasSubstr(fmt::format("{} thread{} (", chosen.threads,
                                                    chosen.threads == 1 ? "" : "s")));
}

}  // namespace

const std::vector<CommunicatorCase>& communicator_cases() {
#define TESSERA_CASE(function) \
  { #function, function }
  static const std::vector<CommunicatorCase> cases = {
      TESSERA_CASE(all_reduce_sums),
      TESSERA_CASE(all_reduce_takes_the_max),
      TESSERA_CASE(max_of_negative_numbers),
      TESSERA_CASE(max_keeps_nan),
      TESSERA_CASE(sums_are_the_same_bits_on_all_ranks),
      TESSERA_CASE(bf16_sums_round_at_most_once_a_rank),
      TESSERA_CASE(reduce_scatter_gives_every_rank_its_part),
      TESSERA_CASE(all_gather_joins_in_the_order_of_ranks),
      TESSERA_CASE(broadcast_from_every_root),
      TESSERA_CASE(messages_arrive_in_order),
      TESSERA_CASE(a_message_of_another_size_is_an_error),
      TESSERA_CASE(several_can_be_pending),
      TESSERA_CASE(pending_and_blocking_collectives_mix),
      TESSERA_CASE(a_pending_collective_ends_with_its_handle),
      TESSERA_CASE(split_orders_by_key),
      TESSERA_CASE(split_makes_groups_that_do_not_meet),
      TESSERA_CASE(groups_of_a_grid),
      TESSERA_CASE(wrong_arguments_are_named),
      TESSERA_CASE(meta_and_empty_tensors_need_no_other_rank),
      TESSERA_CASE(strings_travel),
      TESSERA_CASE(an_error_of_one_rank_is_one_of_all),
      TESSERA_CASE(threads_of_the_host_are_shared),
  };
#undef TESSERA_CASE
  return cases;
}

}  // namespace tessera
