#include "tests/parallel/communicator_cases.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/memory.h"
#include "tests/parallel/case_values.h"

namespace tessera {
namespace {

// Sizes below, at and above the thresholds at which communicators change algorithms.
constexpr std::array<int64_t, 5> kCounts = {1, 3, 64, 1001, 10007};

// --- reductions

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
      // Every rank has the maximum at some index.
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
      << who(group) << " and rank 0 have different bits in the sum of "
      << to_string(describe(mine.tensor));
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
  std::mt19937 random(7);  // every rank draws the numbers of all ranks
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
    // size - 1 roundings to nearest, each of a sum no larger than the last one, with 8 bits each,
    // and as much again for how errors propagate into later sums.
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

void reduce_scatter_works_in_place(Communicator& group) {
  for_each_type([&]<typename T>() {
    for (const int64_t count : kCounts) {
      const OwnedTensor whole = filled<T>(count * group.size(), group.rank());
      const int64_t first = count * group.rank();
      const Tensor mine = whole.tensor.slice(first, first + count);
      group.reduce_scatter(whole.tensor, mine);
      expect_elements<T>(
          mine, [&](int64_t i) { return sum_of_values(group.size(), first + i); }, who(group));
    }
  });
}

// --- copies

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

void all_gather_works_in_place(Communicator& group) {
  for_each_type([&]<typename T>() {
    for (const int64_t count : kCounts) {
      const OwnedTensor whole({group.size(), count}, dtype_of<T>());
      const Tensor mine = whole.tensor.slice(group.rank(), group.rank() + 1);
      std::memcpy(mine.raw(), filled<T>(count, group.rank()).tensor.raw(), mine.bytes());
      group.all_gather(mine, whole.tensor);
      expect_elements<T>(
          whole.tensor, [&](int64_t i) { return value_of(static_cast<int>(i / count), i % count); },
          who(group));
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

}  // namespace

std::vector<CommunicatorCase> data_cases() {
  return {
      {"all_reduce_sums", all_reduce_sums},
      {"all_reduce_takes_the_max", all_reduce_takes_the_max},
      {"max_of_negative_numbers", max_of_negative_numbers},
      {"max_keeps_nan", max_keeps_nan},
      {"sums_are_the_same_bits_on_all_ranks", sums_are_the_same_bits_on_all_ranks},
      {"bf16_sums_round_at_most_once_a_rank", bf16_sums_round_at_most_once_a_rank},
      {"reduce_scatter_gives_every_rank_its_part", reduce_scatter_gives_every_rank_its_part},
      {"reduce_scatter_works_in_place", reduce_scatter_works_in_place},
      {"all_gather_joins_in_the_order_of_ranks", all_gather_joins_in_the_order_of_ranks},
      {"all_gather_works_in_place", all_gather_works_in_place},
      {"broadcast_from_every_root", broadcast_from_every_root},
  };
}

const std::vector<CommunicatorCase>& communicator_cases() {
  static const std::vector<CommunicatorCase> cases = [] {
    std::vector<CommunicatorCase> all = data_cases();
    for (const auto& more : {exchange_cases(), pending_cases(), group_cases()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return cases;
}

}  // namespace tessera
