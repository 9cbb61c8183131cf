#include "core/parameters/flat_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/memory.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

const std::vector<int64_t> kSizes = {5000, 40, 1, 0, 300, 64, 40, 7};

std::vector<size_t> members(const FlatLayout& layout) {
  std::vector<size_t> counts;
  for (const FlatBucket& bucket : layout.buckets()) {
    counts.push_back(static_cast<size_t>(bucket.parameters.size()));
  }
  return counts;
}

TEST(FlatLayout, FillsBucketsFromTheEnd) {
  const std::vector<int64_t> five(5, 40);  // 64 elements each with alignment
  const auto cut = [&](int64_t elements) {
    return members(FlatLayout(five, {.bucket_elements = elements}));
  };
  EXPECT_EQ(cut(1), (std::vector<size_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(cut(128), (std::vector<size_t>{1, 2, 2}));
  EXPECT_EQ(cut(129), (std::vector<size_t>{2, 3}));
  EXPECT_EQ(cut(1000), (std::vector<size_t>{5}));
  EXPECT_EQ(cut(192), (std::vector<size_t>{2, 3}));
  EXPECT_EQ(cut(256), (std::vector<size_t>{5})) << "what remains is less than half";
}

TEST(FlatLayout, BucketsEndWhereUnitsDo) {
  const std::vector<int64_t> six(6, 40);
  const std::vector<UnitBegin> units = {{0}, {1, /*is_block=*/true}, {5}};
  const auto cut = [&](int64_t elements) {
    return members(FlatLayout(six, {.bucket_elements = elements}, units));
  };
  EXPECT_EQ(cut(1000), (std::vector<size_t>{1, 4, 1}));
  EXPECT_EQ(cut(128), (std::vector<size_t>{1, 2, 2, 1}));
  EXPECT_EQ(cut(1), (std::vector<size_t>(6, 1)));
}

TEST(FlatLayout, KeepsOnlyShardsOfBlocks) {
  const std::vector<int64_t> six(6, 40);
  const std::vector<UnitBegin> units = {{0}, {1, /*is_block=*/true}, {5}};
  for (const bool values : {false, true}) {
    OptimizerSharding sharding{.num_shards = 2, .shard = 1, .bucket_elements = 1};
    sharding.shards_gradients = true;
    sharding.shards_values = values;
    const FlatLayout layout(six, sharding, units);
    EXPECT_EQ(members(layout), (std::vector<size_t>{1, 4, 1})) << "a block is one bucket";
    EXPECT_EQ(layout.size(), 6 * 64);
    EXPECT_EQ(layout.gradients_size(), 4 * 64);
    EXPECT_EQ(layout.values_size(), (values ? 4 : 6) * 64);
    const FlatBucket& block = layout.buckets()[1];
    EXPECT_EQ(block.gradients, block.shard);
    EXPECT_EQ(block.values, values ? block.shard : block.elements);
    EXPECT_EQ(layout.buckets()[2].gradients_begin, 3 * 64);
    EXPECT_EQ(layout.buckets()[2].gradients, layout.buckets()[2].elements);
  }
}

TEST(FlatLayout, OneShardHasOnlyAlignmentPadding) {
  for (const int64_t elements : {1, 400, 100000}) {
    const FlatLayout layout(kSizes, {.bucket_elements = elements});
    EXPECT_EQ(layout.size(), 5024 + 64 + 32 + 0 + 320 + 64 + 64 + 32);
    EXPECT_EQ(layout.shard_size(), layout.size());
  }
}

class Shardings : public testing::TestWithParam<std::tuple<int, int64_t>> {
 protected:
  int num_shards() const { return std::get<0>(GetParam()); }
  FlatLayout layout(int shard) const {
    return {kSizes, {num_shards(), shard, std::get<1>(GetParam())}};
  }
};

TEST_P(Shardings, AlignParametersInBuckets) {
  const FlatLayout cut = layout(0);
  int64_t parameter = 0, end = 0, last = 0;
  for (size_t b = 0; b < cut.buckets().size(); ++b) {
    const FlatBucket& bucket = cut.buckets()[b];
    EXPECT_EQ(bucket.elements.begin, end);
    EXPECT_EQ(bucket.parameters.begin, parameter);
    for (; parameter < bucket.parameters.end; ++parameter) {
      const auto i = static_cast<size_t>(parameter);
      EXPECT_EQ(cut.bucket_of(i), b);
      EXPECT_GE(cut.offset(i), std::max(last, bucket.elements.begin));
      last = cut.offset(i) + kSizes[i];
      EXPECT_LE(last, bucket.elements.end);
      EXPECT_EQ(cut.offset(i) * int64_t{2} % static_cast<int64_t>(kAlignment), 0);
    }
    end = bucket.elements.end;
  }
  EXPECT_EQ(end, cut.size());
  EXPECT_EQ(parameter, static_cast<int64_t>(kSizes.size()));
}

// Every shard has the same part of every bucket, and padding is less than an alignment per shard.
TEST_P(Shardings, ShardsAreEqualAndDisjoint) {
  const FlatLayout first = layout(0);
  std::vector<int> owned(static_cast<size_t>(first.size()));
  for (int shard = 0; shard < num_shards(); ++shard) {
    const FlatLayout cut = layout(shard);
    EXPECT_EQ(cut.size(), first.size());
    int64_t state = 0;
    for (size_t b = 0; b < cut.buckets().size(); ++b) {
      const FlatBucket& bucket = cut.buckets()[b];
      EXPECT_EQ(bucket.shard.size() * num_shards(), bucket.elements.size());
      EXPECT_EQ(bucket.shard.begin, bucket.elements.begin + shard * bucket.shard.size());
      EXPECT_EQ(cut.in_shard_buffer(b, bucket.shard), (Range{state, state + bucket.shard.size()}));
      state += bucket.shard.size();
      for (int64_t i = bucket.shard.begin; i < bucket.shard.end; ++i) {
        ++owned[static_cast<size_t>(i)];
      }
    }
    EXPECT_EQ(state, cut.shard_size());
  }
  EXPECT_EQ(owned, std::vector<int>(owned.size(), 1));
  const auto buckets = static_cast<int64_t>(first.buckets().size());
  const int64_t aligned = FlatLayout(kSizes, {}).size();
  EXPECT_LT(first.size(), aligned + buckets * num_shards() * 32);
}

INSTANTIATE_TEST_SUITE_P(FlatLayout, Shardings,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7, 64),
                                          testing::Values<int64_t>(1, 400, 100000)));

TEST(FlatLayout, IsEmptyWithoutParameters) {
  const FlatLayout layout({}, {4, 1});
  EXPECT_EQ(layout.size(), 0);
  EXPECT_EQ(layout.shard_size(), 0);
}

TEST(FlatLayout, RefusesShardOutOfRange) {
  test::expect_error([] { FlatLayout(kSizes, {2, 2}); }, {"shard 2 of 2"});
}

}  // namespace
}  // namespace tessera
