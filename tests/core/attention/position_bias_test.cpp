#include "core/ops/position_bias.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

std::vector<double> slopes(int64_t heads) {
  std::vector<double> all;
  for (int64_t h = 0; h < heads; ++h) all.push_back(alibi_slope(h, heads));
  return all;
}

// The values that the paper lists.
TEST(Alibi, SlopesOfPaper) {
  EXPECT_EQ(slopes(8), (std::vector<double>{1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 32, 1.0 / 64,
                                            1.0 / 128, 1.0 / 256}));
  const std::vector<double> sixteen = slopes(16);
  for (size_t h = 0; h < 16; ++h) {
    EXPECT_DOUBLE_EQ(sixteen[h], std::pow(0.5, 0.5 * static_cast<double>(h + 1)));
  }
  EXPECT_EQ(slopes(1), std::vector<double>{1.0 / 256});
}

/// build_alibi_tensor of transformers' modeling_bloom.py, line by line.
std::vector<double> slopes_of_bloom(int64_t heads) {
  const double closest = std::pow(2.0, std::floor(std::log2(static_cast<double>(heads))));
  const double base = std::pow(2.0, -std::pow(2.0, -(std::log2(closest) - 3.0)));
  std::vector<double> all;
  for (int64_t power = 1; power < 1 + static_cast<int64_t>(closest); ++power) {
    all.push_back(std::pow(base, static_cast<double>(power)));
  }
  const double extra = std::pow(2.0, -std::pow(2.0, -(std::log2(2.0 * closest) - 3.0)));
  const int64_t remaining = heads - static_cast<int64_t>(closest);
  for (int64_t power = 1; power < 1 + 2 * remaining; power += 2) {
    all.push_back(std::pow(extra, static_cast<double>(power)));
  }
  return all;
}

TEST(Alibi, SlopesOfBloomForAnyNumberOfHeads) {
  for (const int64_t heads : {1, 2, 3, 5, 6, 7, 12, 16, 25, 40, 71, 112}) {
    const std::vector<double> found = slopes(heads), expected = slopes_of_bloom(heads);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t h = 0; h < found.size(); ++h) EXPECT_NEAR(found[h] / expected[h], 1.0, 1e-12);
  }
}

TEST(Alibi, TableHasGlobalHeadsOfRank) {
  constexpr int64_t kHeads = 7, kReach = 5;
  for (const Range heads : {Range{0, 7}, Range{2, 5}, Range{6, 7}, Range{7, 7}}) {
    TestTensor table({heads.size(), 2 * kReach - 1}, DType::f32);
    alibi_bias(heads.begin, kHeads, table.tensor);
    for (int64_t h = 0; h < heads.size(); ++h) {
      for (int64_t t = 0; t < kReach; ++t) {
        for (int64_t s = 0; s < kReach; ++s) {
          const float bias = table.tensor.data<float>()[h * (2 * kReach - 1) + kReach - 1 + s - t];
          const double expected =
              -alibi_slope(heads.begin + h, kHeads) * static_cast<double>(std::abs(t - s));
          // The slope and the product are rounded.
          EXPECT_NEAR(bias, expected, 0x1p-22 * std::abs(expected));
        }
      }
    }
  }
}

TEST(Alibi, RefusesWrongTables) {
  const TestTensor even({4, 6}, DType::f32), wide({4, 7}, DType::f32);
  expect_error([&] { alibi_bias(0, 4, even.tensor); },
               {"alibi_bias: table must have shape (Hl, 2R - 1)", "(4, 6)"});
  expect_error([&] { alibi_bias(2, 5, wide.tensor); },
               {"alibi_bias: heads [2, 6) of this rank are not within the 5 heads of all ranks"});
}

/// The line of buckets for keys d before their query, and d after it.
std::vector<int64_t> buckets_of(const RelativeBuckets& buckets, const std::vector<int64_t>& sizes,
                                int64_t sign) {
  std::vector<int64_t> found;
  for (const int64_t d : sizes) found.push_back(relative_bucket(buckets, sign * d));
  return found;
}

// Of T5's encoder: 8 single distances, then 8 × log(d / 8) / log(128 / 8) rounded down.
TEST(RelativeBuckets, OfT5Encoder) {
  const RelativeBuckets t5{32, 128, true};
  const std::vector<int64_t> sizes = {0,  1,  7,  8,  11, 12,  15,  16,     31,
                                      32, 63, 64, 90, 91, 127, 128, 1000000};
  EXPECT_EQ(buckets_of(t5, sizes, -1),
            (std::vector<int64_t>{0, 1, 7, 8, 8, 9, 9, 10, 11, 12, 13, 14, 14, 15, 15, 15, 15}));
  EXPECT_EQ(buckets_of(t5, sizes, 1), (std::vector<int64_t>{0, 17, 23, 24, 24, 25, 25, 26, 27, 28,
                                                            29, 30, 30, 31, 31, 31, 31}));
}

// Of T5's decoder: 16 single distances, then 16 × log(d / 16) / log(128 / 16) rounded down.
TEST(RelativeBuckets, OfT5Decoder) {
  const RelativeBuckets t5{32, 128, false};
  EXPECT_EQ(buckets_of(t5, {0, 1, 15, 16, 18, 19, 31, 32, 63, 64, 112, 113, 127, 128, 1000000}, -1),
            (std::vector<int64_t>{0, 1, 15, 16, 16, 17, 21, 21, 26, 26, 30, 31, 31, 31, 31}));
  EXPECT_EQ(buckets_of(t5, {0, 1, 16, 128, 1000}, 1), (std::vector<int64_t>{0, 0, 0, 0, 0}));
}

/// T5Attention._relative_position_bucket in transformers, in fp32 as there.
int64_t bucket_of_transformers(int64_t num_buckets, int64_t max_distance, bool bidirectional,
                               int64_t relative_position) {
  int64_t relative_buckets = 0;
  if (bidirectional) {
    num_buckets /= 2;
    if (relative_position > 0) relative_buckets += num_buckets;
    relative_position = std::abs(relative_position);
  } else {
    relative_position = -std::min<int64_t>(relative_position, 0);
  }
  const int64_t max_exact = num_buckets / 2;
  if (relative_position < max_exact) return relative_buckets + relative_position;
  const auto log = static_cast<float>(
      std::log(static_cast<double>(max_distance) / static_cast<double>(max_exact)));
  const float steps =
      std::log(static_cast<float>(relative_position) / static_cast<float>(max_exact)) / log *
      static_cast<float>(num_buckets - max_exact);
  return relative_buckets + std::min(max_exact + static_cast<int64_t>(steps), num_buckets - 1);
}

const RelativeBuckets kBuckets[] = {{32, 128, true},  {32, 128, false}, {4, 2, true},
                                    {2, 2, false},    {8, 12, false},   {6, 16, true},
                                    {256, 1024, true}};

TEST(RelativeBuckets, MatchTransformers) {
  for (const RelativeBuckets& buckets : kBuckets) {
    for (int64_t distance = -1100; distance <= 1100; ++distance) {
      ASSERT_EQ(relative_bucket(buckets, distance),
                bucket_of_transformers(buckets.count, buckets.max_distance, buckets.bidirectional,
                                       distance))
          << buckets.count << " buckets, distance " << distance;
    }
  }
}

TEST(RelativeBuckets, RangesHaveEachDistanceOnce) {
  for (const RelativeBuckets& buckets : kBuckets) {
    const BucketRanges ranges = bucket_ranges(buckets);
    for (const int64_t reach : {1, 2, 5, 9, 130, 2000}) {
      int64_t distances = 0;
      for (int64_t bucket = 0; bucket < buckets.count; ++bucket) {
        const Range range = ranges.of(bucket, reach);
        for (int64_t d = range.begin; d < range.end; ++d, ++distances) {
          ASSERT_LT(std::abs(d), reach);
          ASSERT_EQ(relative_bucket(buckets, d), bucket) << "distance " << d;
        }
      }
      EXPECT_EQ(distances, 2 * reach - 1) << buckets.count << " buckets";
    }
  }
}

class RelativeBias : public testing::TestWithParam<DType> {};

TEST_P(RelativeBias, TableAndGradientMatchBuckets) {
  for (const RelativeBuckets& buckets : kBuckets) {
    for (const auto& [heads, reach] : {std::pair<int64_t, int64_t>{3, 150}, {1, 1}, {2, 7}}) {
      const TestTensor weights = random_tensor({buckets.count, heads}, GetParam(), 1);
      const TestTensor table({heads, 2 * reach - 1}, DType::f32);
      relative_bias(weights.tensor, buckets, table.tensor);
      const TestTensor dtable = random_tensor(table.tensor.shape(), DType::f32, 2);
      const TestTensor dweights = random_tensor({buckets.count, heads}, DType::f32, 3);
      std::vector<double> bias, sums = to_doubles(dweights.tensor);  // to which it is added
      const auto of_weights = to_doubles(weights.tensor), of_table = to_doubles(dtable.tensor);
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t d = 1 - reach; d < reach; ++d) {
          const auto at = static_cast<size_t>(relative_bucket(buckets, d) * heads + h);
          sums[at] += of_table[bias.size()];
          bias.push_back(of_weights[at]);
        }
      }
      relative_bias_backward(dtable.tensor, buckets, dweights.tensor);
      expect_close(table.tensor, bias, 0.0, "table");
      expect_close(dweights.tensor, sums, sum_tolerance(DType::f32, reach), "dweights");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, RelativeBias, testing::Values(DType::f32, DType::bf16),
                         name_of_dtype);

TEST(RelativeBiasErrors, RefusesWrongBuckets) {
  const TestTensor weights({6, 2}, DType::f32), table({2, 9}, DType::f32);
  const auto refuse = [&](const RelativeBuckets& buckets,
                          std::initializer_list<const char*> parts) {
    const TestTensor of({buckets.count, 2}, DType::f32);
    expect_error([&] { relative_bias(of.tensor, buckets, table.tensor); }, parts);
  };
  refuse({7, 128, true}, {"relative_bias: there are 7 buckets", "both have equally many"});
  refuse({2, 128, true}, {"there are 2 buckets", "at least 2"});
  refuse({258, 128, true}, {"there are 258 buckets", "at most 256"});
  refuse({32, 8, true}, {"max_distance is 8, but must be above 8"});
  expect_error(
      [&] {
        relative_bias(weights.tensor, {8, 128, true}, table.tensor);
      },
      {"weights must have shape (8, 2)"});
}

}  // namespace
}  // namespace tessera
