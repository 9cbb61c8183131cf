#include "core/ops/reduce.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

double sum_of_squares(const Tensor& x) {
  const TestTensor out({1}, DType::f64);
  add_sum_of_squares(x, out.tensor);
  return to_doubles(out.tensor)[0];
}

// Sums in double of up to 2²¹ elements: errors of 2⁻⁵³ each, as a random walk.
constexpr double kDoubleTolerance = 4 * 1500 * 0x1p-53;

TEST(Reduce, MatchesReference) {
  for (const int64_t n : {0, 1, 3, 17, 4095, 4097, 70001, 1500001}) {
    const TestTensor x = random_tensor({n}, DType::f32, 1);
    double squares = 0.0;
    for (const float value : x.tensor.span<float>()) {
      const auto v = static_cast<double>(value);
      squares += v * v;
    }
    EXPECT_NEAR(sum_of_squares(x.tensor), squares, kDoubleTolerance * squares) << n;
  }
}

TEST(Reduce, SumsSquaresOfBf16) {
  for (const int64_t n : {1, 3, 4097, 70001}) {
    const TestTensor x = random_tensor({n}, DType::bf16, 1);
    double squares = 0.0;
    for (const double value : to_doubles(x.tensor)) squares += value * value;
    EXPECT_NEAR(sum_of_squares(x.tensor), squares, kDoubleTolerance * squares) << n;
  }
}

TEST(Reduce, SquaresBeyondFp32DoNotOverflow) {
  const TestTensor x = from_doubles({{3e30, -4e30}}, {2}, DType::f32);
  EXPECT_NEAR(std::sqrt(sum_of_squares(x.tensor)) / 5e30, 1.0, 1e-6);
}

TEST(Reduce, SumOfSquaresAccumulates) {
  const TestTensor x = from_doubles({{3.0, 4.0}}, {2}, DType::f32), out({1}, DType::f64);
  out.tensor.span<double>()[0] = 0.5;
  add_sum_of_squares(x.tensor, out.tensor);
  add_sum_of_squares(x.tensor.slice(0, 0), out.tensor);
  EXPECT_EQ(to_doubles(out.tensor)[0], 25.5);
}

TEST(Reduce, SumOfSquaresPropagatesNonFinite) {
  for (const double bad : {double{NAN}, double{INFINITY}, -double{INFINITY}}) {
    TestTensor x = random_tensor({70001}, DType::f32, 1);
    x.tensor.span<float>()[69999] = static_cast<float>(bad);
    EXPECT_FALSE(std::isfinite(sum_of_squares(x.tensor))) << bad;
  }
}

TEST(Reduce, ColumnSumAccumulates) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t rows : {0, 1, 3, 65, 300}) {
      for (const int64_t columns : {1, 3, 17, 127, 769}) {
        const TestTensor x = random_tensor({rows, columns}, dtype, 1);
        const TestTensor out = random_tensor({columns}, DType::f32, 2);
        const TestTensor fresh = copy_of(out.tensor), zeros({columns}, DType::f32);
        auto expected = reference::column_sum(to_doubles(x.tensor), columns);
        column_sum(x.tensor, zeros.tensor);
        column_sum(x.tensor, fresh.tensor, Accumulate::no);
        EXPECT_EQ(to_doubles(fresh.tensor), to_doubles(zeros.tensor)) << "overwritten";
        const auto before = to_doubles(out.tensor);
        for (size_t c = 0; c < expected.size(); ++c) expected[c] += before[c];
        column_sum(x.tensor, out.tensor);
        // A single column: cancellation is measured by the magnitude of the terms.
        const double typical = std::sqrt(static_cast<double>(rows + 1));
        const double scale = std::max(1.0, typical / root_mean_square(expected));
        expect_close(out.tensor, expected, scale * sum_tolerance(DType::f32, rows + 1), "out");
      }
    }
  }
}

TEST(Reduce, BitsDoNotDependOnThreads) {
  const TestTensor x = random_tensor({433, 769}, DType::f32, 1);
  const TestTensor expected({769}, DType::f32);
  double squares = 0.0;
  for (const int threads : {1, 2, 3}) {
    const ThreadCount count(threads);
    const TestTensor out({769}, DType::f32);
    if (threads == 1) {
      squares = sum_of_squares(x.tensor);
      column_sum(x.tensor, expected.tensor);
    }
    column_sum(x.tensor, out.tensor);
    EXPECT_EQ(sum_of_squares(x.tensor), squares);
    expect_same_bits(out.tensor, expected.tensor, "column_sum");
  }
}

TEST(Reduce, RefusesWrongArguments) {
  const TestTensor x({4, 8}, DType::bf16, kMeta), out({8}, DType::f32, kMeta);
  const TestTensor total({1}, DType::f64, kMeta), single({1}, DType::f32);
  add_sum_of_squares(out.tensor, total.tensor);
  column_sum(x.tensor, out.tensor);
  const TestTensor ids({8}, DType::i32, kMeta);
  expect_error([&] { add_sum_of_squares(ids.tensor, total.tensor); },
               {"add_sum_of_squares", "x", "fp32 or bf16", "int32"});
  expect_error([&] { add_sum_of_squares({}, total.tensor); },
               {"add_sum_of_squares", "x", "undefined"});
  expect_error([&] { add_sum_of_squares(out.tensor, out.tensor); },
               {"add_sum_of_squares", "out", "(1)", "(8)"});
  expect_error([&] { add_sum_of_squares(out.tensor, single.tensor); },
               {"add_sum_of_squares", "out", "fp64"});
  expect_error([&] { column_sum(x.tensor, x.tensor); }, {"column_sum", "out", "(8)", "(4, 8)"});
}

}  // namespace
}  // namespace tessera
