#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "core/memory.h"
#include "tests/parallel/case_values.h"
#include "tests/parallel/communicator_cases.h"

namespace tessera {
namespace {

// Sizes below, at and above the thresholds at which communicators change algorithms.
constexpr std::array<int64_t, 5> kCounts = {1, 3, 64, 1001, 10007};

void several_can_be_pending(Communicator& group) {
  for_each_type([&]<typename T>() {
    std::vector<OwnedTensor> tensors;
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (const int64_t count : kCounts) tensors.push_back(filled<T>(count, group.rank()));
    for (const OwnedTensor& owned : tensors) {
      pending.push_back(group.all_reduce_async(owned.tensor));
    }
    // Ranks wait in different orders, and once more than needed.
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

/// A rank's tensors for a reduce-scatter and an all-gather of `count` elements per rank.
template <typename T>
struct Parts {
  OwnedTensor whole;  ///< (size, count)
  OwnedTensor apart;  ///< (count)
  Tensor own;         ///< this rank's part: `apart`, or in place in `whole`

  Parts(const Communicator& group, int64_t count, bool in_place)
      : whole(filled<T>(count * group.size(), group.rank())),
        apart(filled<T>(count, group.rank())),
        own(in_place ? whole.tensor.slice(count * group.rank(), count * (group.rank() + 1))
                     : apart.tensor) {}
};

void pending_scatters_and_gathers(Communicator& group) {
  for_each_type([&]<typename T>() {
    std::vector<Parts<T>> scattered, gathered;
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (const int64_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        scattered.emplace_back(group, count, in_place);
        Parts<T>& parts = gathered.emplace_back(group, count, in_place);
        std::memcpy(parts.own.raw(), filled<T>(count, group.rank()).tensor.raw(),
                    parts.own.bytes());
      }
    }
    for (size_t i = 0; i < scattered.size(); ++i) {
      pending.push_back(group.reduce_scatter_async(scattered[i].whole.tensor, scattered[i].own));
      pending.push_back(group.all_gather_async(gathered[i].own, gathered[i].whole.tensor));
    }
    // Ranks wait in different orders.
    for (size_t i = 0; i < pending.size(); ++i) {
      pending[(i + static_cast<size_t>(group.rank())) % pending.size()]->wait();
    }
    for (const Parts<T>& parts : scattered) {
      const int64_t first = parts.own.numel() * group.rank();
      expect_elements<T>(
          parts.own, [&](int64_t i) { return sum_of_values(group.size(), first + i); }, who(group));
    }
    for (const Parts<T>& parts : gathered) {
      const int64_t count = parts.own.numel();
      expect_elements<T>(
          parts.whole.tensor,
          [&](int64_t i) { return value_of(static_cast<int>(i / count), i % count); }, who(group));
    }
  });
}

// The pattern of a training step: gradients of one bucket and values of another.
void a_pending_scatter_takes_the_max_and_mixes(Communicator& group) {
  constexpr int64_t kCount = 1001;
  const Parts<float> scattered(group, kCount, /*in_place=*/true);
  const Parts<float> gathered(group, kCount, /*in_place=*/false);
  const OwnedTensor reduced = filled<float>(kCount, group.rank());
  const auto scatter =
      group.reduce_scatter_async(scattered.whole.tensor, scattered.own, ReduceOp::max);
  const auto reduce = group.all_reduce_async(reduced.tensor);
  const auto gather = group.all_gather_async(gathered.own, gathered.whole.tensor);
  group.barrier();
  while (!gather->progress() || !reduce->progress() || !scatter->progress()) {
  }
  EXPECT_TRUE(scatter->progress());
  const int64_t first = kCount * group.rank();
  expect_elements<float>(
      scattered.own, [&](int64_t i) { return value_of(group.size() - 1, first + i); }, who(group));
  expect_elements<float>(
      reduced.tensor, [&](int64_t i) { return sum_of_values(group.size(), i); }, who(group));
  expect_elements<float>(
      gathered.whole.tensor,
      [&](int64_t i) { return value_of(static_cast<int>(i / kCount), i % kCount); }, who(group));
}

}  // namespace

std::vector<CommunicatorCase> pending_cases() {
  return {
      {"several_can_be_pending", several_can_be_pending},
      {"pending_and_blocking_collectives_mix", pending_and_blocking_collectives_mix},
      {"a_pending_collective_ends_with_its_handle", a_pending_collective_ends_with_its_handle},
      {"pending_scatters_and_gathers", pending_scatters_and_gathers},
      {"a_pending_scatter_takes_the_max_and_mixes", a_pending_scatter_takes_the_max_and_mixes},
  };
}

}  // namespace tessera
