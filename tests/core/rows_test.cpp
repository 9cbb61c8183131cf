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
using test::to_doubles;
using test::unit_roundoff;

constexpr DType kDTypes[] = {DType::f32, DType::bf16};

TEST(Rows, GatheringTakesThem) {
  const OwnedTensor rows = test::from_ints(std::vector<int32_t>{6, 0, 3}, {3});
  for (const DType dtype : kDTypes) {
    const OwnedTensor x = random_tensor({1, 7, 19}, dtype, 1);
    const OwnedTensor out({3, 19}, dtype);
    gather_rows(x.tensor, rows.tensor, out.tensor);
    for (int64_t m = 0; m < 3; ++m) {
      const int32_t row = rows.tensor.span<int32_t>()[static_cast<size_t>(m)];
      expect_same_bits(out.tensor.slice(m, m + 1), x.tensor.view({7, 19}).slice(row, row + 1),
                       "a row");
    }
  }
}

TEST(Rows, ScatteringAddsToThemAlone) {
  const OwnedTensor rows = test::from_ints(std::vector<int32_t>{6, 0, 3}, {3});
  for (const DType dtype : kDTypes) {
    const OwnedTensor dout = random_tensor({3, 19}, dtype, 1);
    const OwnedTensor dx = random_tensor({7, 19}, dtype, 2);
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

TEST(Rows, ArgmaxIsTheFirstOfTheLargest) {
  const std::vector<double> values = {1, 3, 3, 2, -1, -2, -3, -4, 0, 0, 0, 5};
  for (const DType dtype : kDTypes) {
    const OwnedTensor x = test::from_doubles(values, {3, 4}, dtype);
    const OwnedTensor out({3}, DType::i32);
    argmax_rows(x.tensor, out.tensor);
    EXPECT_EQ(to_doubles(out.tensor), (std::vector<double>{1, 0, 3}));
  }
}

TEST(Rows, WrongArgumentsAreNamed) {
  const OwnedTensor x({7, 4}, DType::f32, kMeta), rows({3}, DType::i32, kMeta);
  const OwnedTensor out({2, 4}, DType::f32, kMeta);
  expect_error([&] { gather_rows(x.tensor, rows.tensor, out.tensor); },
               {"gather_rows", "out", "(3, 4)", "(2, 4)"});
  expect_error([&] { scatter_add_rows(out.tensor, rows.tensor, x.tensor); },
               {"scatter_add_rows", "dout", "(3, 4)"});
  expect_error([&] { argmax_rows(x.tensor, rows.tensor); }, {"argmax_rows", "out", "(7)"});
}

TEST(Tanh, ForwardAndBackwardAreTheTextbooks) {
  for (const DType dtype : kDTypes) {
    const OwnedTensor x = random_tensor({5, 33}, dtype, 1, 2.0f);
    const OwnedTensor dy = random_tensor({5, 33}, dtype, 2);
    const OwnedTensor y({5, 33}, dtype), dx({5, 33}, dtype);
    tanh_forward(x.tensor, y.tensor);
    auto expected = to_doubles(x.tensor);
    for (double& value : expected) value = std::tanh(value);
    expect_close(y.tensor, expected, 2 * unit_roundoff(dtype), "y");

    tanh_backward(dy.tensor, y.tensor, dx.tensor);
    auto slope = to_doubles(y.tensor);  // 1 − y² of the rounded y
    const auto gradient = to_doubles(dy.tensor);
    for (size_t i = 0; i < slope.size(); ++i) slope[i] = gradient[i] * (1.0 - slope[i] * slope[i]);
    expect_close(dx.tensor, slope, 4 * unit_roundoff(dtype), "dx");
  }
}

}  // namespace
}  // namespace tessera
