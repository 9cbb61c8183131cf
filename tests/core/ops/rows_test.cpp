#include "core/ops/rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/ops/tanh.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::expect_close;
using test::expect_error;
using test::expect_same_bits;
using test::random_tensor;
using test::TestTensor;
using test::to_doubles;
using test::unit_roundoff;

constexpr DType kDTypes[] = {DType::f32, DType::bf16};

TEST(Rows, GathersRows) {
  const TestTensor rows = test::from_ints(std::vector<int32_t>{6, 0, 3}, {3});
  for (const DType dtype : kDTypes) {
    const TestTensor x = random_tensor({1, 7, 19}, dtype, 1);
    const TestTensor out({3, 19}, dtype);
    gather_rows(x.tensor, rows.tensor, out.tensor);
    for (int64_t m = 0; m < 3; ++m) {
      const int32_t row = rows.tensor.span<int32_t>()[static_cast<size_t>(m)];
      expect_same_bits(out.tensor.slice(m, m + 1), x.tensor.view({7, 19}).slice(row, row + 1),
                       "a row");
    }
  }
}

TEST(Rows, ScatterAddsToSelectedRows) {
  const TestTensor rows = test::from_ints(std::vector<int32_t>{6, 0, 3}, {3});
  for (const DType dtype : kDTypes) {
    const TestTensor dout = random_tensor({3, 19}, dtype, 1);
    const TestTensor dx = random_tensor({7, 19}, dtype, 2);
    auto expected = to_doubles(dx.tensor);
    const auto add = to_doubles(dout.tensor);
    for (size_t i = 0; i < add.size(); ++i) {
      const auto row = static_cast<size_t>(rows.tensor.span<int32_t>()[i / 19]);
      expected[row * 19 + i % 19] += add[i];
    }
    scatter_add_rows(dout.tensor, rows.tensor, dx.tensor);
    expect_close(dx.tensor, expected, unit_roundoff(dtype), "dx");
  }
}

TEST(Rows, RowsOutsideLocalRangeAreZeros) {
  const TestTensor rows = test::from_ints(std::vector<int32_t>{6, 0, 3, 2}, {4});
  constexpr int64_t kFirst = 2;
  for (const DType dtype : kDTypes) {
    for (const int64_t local : {0, 1, 3}) {
      const TestTensor whole = random_tensor({7, 24}, dtype, 1),
                       dout = random_tensor({4, 24}, dtype, 2);
      const TestTensor part = test::copy_of(whole.tensor.slice(kFirst, kFirst + local));
      const TestTensor out({4, 24}, dtype);
      gather_rows(part.tensor, rows.tensor, out.tensor, kFirst);
      auto expected_out = std::vector<double>(4 * 24);
      auto expected_sum = to_doubles(part.tensor);
      const auto x = to_doubles(whole.tensor), add = to_doubles(dout.tensor);
      for (size_t i = 0; i < expected_out.size(); ++i) {
        const int64_t row = rows.tensor.span<int32_t>()[i / 24];
        if (row < kFirst || row >= kFirst + local) continue;
        expected_out[i] = x[static_cast<size_t>(row) * 24 + i % 24];
        expected_sum[static_cast<size_t>(row - kFirst) * 24 + i % 24] += add[i];
      }
      EXPECT_EQ(to_doubles(out.tensor), expected_out);
      scatter_add_rows(dout.tensor, rows.tensor, part.tensor, kFirst);
      expect_close(part.tensor, expected_sum, unit_roundoff(dtype), "dx");
    }
  }
}

TEST(Rows, ArgmaxReturnsFirstOfEquals) {
  const std::vector<double> values = {1, 3, 3, 2, -1, -2, -3, -4, 0, 0, 0, 5};
  for (const DType dtype : kDTypes) {
    const TestTensor x = test::from_doubles(values, {3, 4}, dtype);
    const TestTensor out({3}, DType::i32);
    argmax_rows(x.tensor, out.tensor);
    EXPECT_EQ(to_doubles(out.tensor), (std::vector<double>{1, 0, 3}));
  }
}

TEST(Rows, ArgmaxIgnoresLaterNaNs) {
  const double nan = std::nan("");
  const TestTensor x = test::from_doubles(
      std::vector<double>{nan, 3, 4, 1, nan, 0, -INFINITY, nan, -INFINITY}, {3, 3}, DType::f32);
  const TestTensor out({3}, DType::i32);
  argmax_rows(x.tensor, out.tensor);
  EXPECT_EQ(to_doubles(out.tensor), (std::vector<double>{0, 0, 0}));
}

TEST(Rows, GathersAndCountsInts) {
  for (const int64_t n : {0, 1, 31, 33, 1024, 1025, 3000}) {
    const TestTensor values = test::random_ints({n + 1}, 0, 3, 1),
                     b = test::random_ints({n}, 0, 3, 2);
    const TestTensor rows = test::random_ints({n}, 0, static_cast<int32_t>(n + 1), 3);
    const TestTensor a({n}, DType::i32), count({1}, DType::f64);
    gather_ints(values.tensor, rows.tensor, a.tensor);
    double expected = 0.5;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const auto row = static_cast<size_t>(rows.tensor.span<int32_t>()[i]);
      const int32_t value = values.tensor.span<int32_t>()[row];
      ASSERT_EQ(a.tensor.span<int32_t>()[i], value);
      expected += value == b.tensor.span<int32_t>()[i];
    }
    count.tensor.span<double>()[0] = 0.5;
    count_equal(a.tensor, b.tensor, count.tensor);
    EXPECT_EQ(count.tensor.span<double>()[0], expected);
  }
}

TEST(Rows, RefusesWrongArguments) {
  const TestTensor x({7, 4}, DType::f32, kMeta), rows({3}, DType::i32, kMeta);
  const TestTensor out({2, 4}, DType::f32, kMeta);
  expect_error([&] { gather_rows(x.tensor, rows.tensor, out.tensor); },
               {"gather_rows", "out", "(3, 4)", "(2, 4)"});
  expect_error([&] { scatter_add_rows(out.tensor, rows.tensor, x.tensor); },
               {"scatter_add_rows", "dout", "(3, 4)"});
  expect_error([&] { argmax_rows(x.tensor, rows.tensor); }, {"argmax_rows", "out", "(7)"});
}

TEST(Tanh, BothPassesMatchReference) {
  for (const DType dtype : kDTypes) {
    const TestTensor x = random_tensor({5, 33}, dtype, 1, 2.0f);
    const TestTensor dy = random_tensor({5, 33}, dtype, 2);
    const TestTensor y({5, 33}, dtype), dx({5, 33}, dtype);
    tanh_forward(x.tensor, y.tensor);
    auto expected = to_doubles(x.tensor);
    for (double& value : expected) value = std::tanh(value);
    // CUDA's tanh is off by up to 2 units in the last place, each two fp32 roundings.
    const double tolerance = unit_roundoff(dtype) + 4 * unit_roundoff(DType::f32);
    expect_close(y.tensor, expected, tolerance, "y");

    tanh_backward(dy.tensor, y.tensor, dx.tensor);
    auto slope = to_doubles(y.tensor);  // 1 − y² from the rounded y
    const auto gradient = to_doubles(dy.tensor);
    for (size_t i = 0; i < slope.size(); ++i) slope[i] = gradient[i] * (1.0 - slope[i] * slope[i]);
    expect_close(dx.tensor, slope, 4 * unit_roundoff(dtype), "dx");
  }
}

}  // namespace
}  // namespace tessera
