#include "core/ops/position_bias.h"

#include <gtest/gtest.h>

#include <cmath>
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

}  // namespace
}  // namespace tessera
