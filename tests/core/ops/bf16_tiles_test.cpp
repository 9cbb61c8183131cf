#include "core/ops/cpu/matmul/bf16_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/checked.h"

namespace tessera::cpu {
namespace {

struct Extents {
  int64_t m, n, k;
};

/// Small integers and fractions: exact in bf16, with exact sums in fp32.
bfloat16 number(int64_t i, int64_t j) {
  return bfloat16(static_cast<float>((i * 7 + j * 5) % 23 - 11) / 8.0f);
}

/// Rows that are `stride` apart; the elements in between must not be read.
std::vector<bfloat16> rows_of_numbers(int64_t rows, int64_t cols, int64_t stride) {
  std::vector<bfloat16> source(static_cast<size_t>(rows * stride),
                               bfloat16(std::numeric_limits<float>::quiet_NaN()));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) source[static_cast<size_t>(i * stride + j)] = number(i, j);
  }
  return source;
}

class Bf16Tiles : public testing::TestWithParam<Extents> {
 protected:
  void SetUp() override {
    if (bf16_unit() == Bf16Unit::none) GTEST_SKIP() << "this processor has no bf16 instructions";
  }

  Extents extents_ = GetParam();
  int64_t m_ = round_up(extents_.m, kBf16Rows), n_ = round_up(extents_.n, kBf16Rows);
  int64_t k_ = round_up(extents_.k, kBf16Depth);
  // Elements that are not packed must not be read.
  std::vector<bfloat16> left_ = std::vector<bfloat16>(
      static_cast<size_t>(m_ * k_), bfloat16(std::numeric_limits<float>::quiet_NaN()));
  std::vector<bfloat16> right_ = std::vector<bfloat16>(
      static_cast<size_t>(k_ * n_), bfloat16(std::numeric_limits<float>::quiet_NaN()));

  /// Multiplies left_ and right_, accumulating if asked, and compares with the sums of left(i, l) ×
  /// right(l, j), which are exact.
  template <typename Left, typename Right>
  void expect_product(Left&& left, Right&& right) {
    for (const bool accumulate : {false, true}) {
      std::vector<float> c(static_cast<size_t>(m_ * n_), 3.0f);
      {
        const Bf16TileScope scope;
        bf16_multiply(extents_.m, extents_.n, extents_.k, left_.data(), k_, right_.data(), n_,
                      c.data(), n_, accumulate);
      }
      for (int64_t i = 0; i < extents_.m; ++i) {
        for (int64_t j = 0; j < extents_.n; ++j) {
          float sum = accumulate ? 3.0f : 0.0f;
          for (int64_t l = 0; l < extents_.k; ++l) {
            sum += static_cast<float>(left(i, l)) * static_cast<float>(right(l, j));
          }
          ASSERT_EQ(c[static_cast<size_t>(i * n_ + j)], sum) << i << ", " << j;
        }
      }
    }
  }
};

TEST_P(Bf16Tiles, MultiplyRowsByRows) {
  const auto [m, n, k] = extents_;
  const auto a = rows_of_numbers(m, k, k + 3), b = rows_of_numbers(k, n, n + 5);
  bf16_left(a.data(), k + 3, m, k, left_.data(), k_);
  bf16_right(b.data(), n + 5, k, n, right_.data(), n_);
  expect_product(number, number);
}

TEST_P(Bf16Tiles, MultiplyColumnsByColumns) {
  const auto [m, n, k] = extents_;
  const auto a = rows_of_numbers(k, m, m + 3), b = rows_of_numbers(n, k, k + 1);
  bf16_left_transposed(a.data(), m + 3, k, m, left_.data(), k_);
  bf16_right_transposed(b.data(), k + 1, n, k, right_.data(), n_);
  const auto turned = [](int64_t i, int64_t j) { return number(j, i); };
  expect_product(turned, turned);
}

TEST_P(Bf16Tiles, RoundFp32) {
  const auto [m, n, k] = extents_;
  // Rounding drops at most a quarter of bf16's last place of the largest number.
  const auto precise = [](int64_t i, int64_t j) {
    return static_cast<float>(number(i, j)) * (1.0f + 0x1p-10f);
  };
  const int64_t cols = round_up(k, kBf16Rows);
  std::vector<float> a(static_cast<size_t>(m * cols)), b(static_cast<size_t>(k * n_));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t l = 0; l < k; ++l) a[static_cast<size_t>(i * cols + l)] = precise(i, l);
  }
  for (int64_t l = 0; l < k; ++l) {
    for (int64_t j = 0; j < n; ++j) b[static_cast<size_t>(l * n_ + j)] = precise(l, j);
  }
  bf16_left(a.data(), cols, m, cols, left_.data(), k_);
  bf16_right(b.data(), n_, k, n_, right_.data(), n_);
  expect_product(number, number);
}

INSTANTIATE_TEST_SUITE_P(Extents, Bf16Tiles,
                         testing::Values(Extents{1, 1, 1}, Extents{16, 16, 32}, Extents{64, 64, 64},
                                         Extents{33, 48, 17}, Extents{5, 64, 96},
                                         Extents{49, 80, 33}, Extents{64, 17, 63}));

TEST(Bf16Tiles, RestoreTileConfiguration) {
  if (bf16_unit() != Bf16Unit::amx) GTEST_SKIP() << "this processor has no AMX";
  alignas(64) uint8_t before[64], within[64], after[64];
  asm volatile("sttilecfg %0" : "=m"(before));
  {
    const Bf16TileScope scope;
    asm volatile("sttilecfg %0" : "=m"(within));
  }
  asm volatile("sttilecfg %0" : "=m"(after));
  EXPECT_NE(within[0], 0);
  EXPECT_TRUE(std::equal(before, before + 64, after));
}

}  // namespace
}  // namespace tessera::cpu
