#include "core/ops/pooling.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/ops/elementwise.h"
#include "tests/support/expect_error.h"
#include "tests/support/finite_difference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr DType kDTypes[] = {DType::f32, DType::bf16};

/// Cumulative lengths of documents.
const std::vector<int32_t> kDocuments[] = {{0, 1}, {0, 3, 4, 11}, {0, 40}, {0, 2, 39, 40, 77}};

/// The means over the rows [first, last) of each document of x (N, columns).
std::vector<double> reference_mean(std::span<const double> x, const std::vector<int32_t>& documents,
                                   int64_t columns, int64_t first, int64_t last) {
  std::vector<double> out;
  for (size_t s = 0; s + 1 < documents.size(); ++s) {
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0.0;
      for (int64_t row = documents[s]; row < documents[s + 1]; ++row) {
        if (first <= row && row < last) sum += x[static_cast<size_t>(row * columns + c)];
      }
      out.push_back(sum / (documents[s + 1] - documents[s]));
    }
  }
  return out;
}

TEST(PoolMean, MatchesReferenceForAnyDocumentsAndRows) {
  for (const DType dtype : kDTypes) {
    for (const DType pooled : {dtype, DType::f32}) {
      for (const std::vector<int32_t>& documents : kDocuments) {
        for (const int64_t columns : {1, 7, 64, 300}) {
          const int64_t rows = documents.back(), count = std::ssize(documents) - 1;
          const TestTensor x = random_tensor({rows, columns}, dtype, 1);
          const TestTensor ends = from_ints(documents, {count + 1});
          // All rows, and the parts that ranks with local rows have.
          for (const auto& [first, last] :
               {std::pair<int64_t, int64_t>{0, rows}, {0, rows / 2}, {rows / 2, rows}}) {
            const TestTensor out({count, columns}, pooled);
            pool_mean(x.tensor.slice(first, last), ends.tensor, out.tensor, first);
            expect_close(out.tensor,
                         reference_mean(to_doubles(x.tensor), documents, columns, first, last),
                         sum_tolerance(pooled, rows), "mean");
          }
        }
      }
    }
  }
}

TEST(PoolMean, BackwardAddsGradientToLocalRows) {
  for (const DType dtype : kDTypes) {
    for (const DType pooled : {dtype, DType::f32}) {
      for (const std::vector<int32_t>& documents : kDocuments) {
        constexpr int64_t kColumns = 7;
        const int64_t rows = documents.back(), count = std::ssize(documents) - 1;
        const TestTensor dout = random_tensor({count, kColumns}, pooled, 2);
        const TestTensor ends = from_ints(documents, {count + 1});
        const TestTensor before = random_tensor({rows, kColumns}, dtype, 3);
        const auto slopes = to_doubles(dout.tensor);
        std::vector<double> expected = to_doubles(before.tensor);
        for (size_t s = 0; s + 1 < documents.size(); ++s) {
          for (int64_t row = documents[s]; row < documents[s + 1]; ++row) {
            for (int64_t c = 0; c < kColumns; ++c) {
              expected[static_cast<size_t>(row * kColumns + c)] +=
                  slopes[s * kColumns + static_cast<size_t>(c)] / (documents[s + 1] - documents[s]);
            }
          }
        }
        // Two ranks with half of the rows each.
        const TestTensor dx = copy_of(before.tensor);
        for (const Range part : {Range{0, rows / 2}, Range{rows / 2, rows}}) {
          pool_mean_backward(dout.tensor, ends.tensor, dx.tensor.slice(part.begin, part.end),
                             part.begin);
        }
        // A quotient, a product and a sum.
        expect_close(dx.tensor, expected, 3 * unit_roundoff(dtype), "gradient");
      }
    }
  }
}

TEST(PoolMean, HasSameBitsForDocumentAloneAndAmongOthers) {
  const TestTensor x = random_tensor({60, 33}, DType::f32, 1);
  const TestTensor all({3, 33}, DType::f32), alone({1, 33}, DType::f32);
  const std::vector<int32_t> ends = {0, 13, 50, 60}, own = {0, 37};
  pool_mean(x.tensor, from_ints(ends, {4}).tensor, all.tensor);
  pool_mean(x.tensor.slice(13, 50), from_ints(own, {2}).tensor, alone.tensor);
  expect_same_bits(alone.tensor, all.tensor.slice(1, 2), "mean");
}

std::vector<double> reference_normalized(std::span<const double> x, int64_t columns,
                                         double length) {
  std::vector<double> y(x.begin(), x.end());
  for (size_t begin = 0; begin < y.size(); begin += static_cast<size_t>(columns)) {
    double squares = 0.0;
    for (int64_t c = 0; c < columns; ++c) squares += std::pow(x[begin + static_cast<size_t>(c)], 2);
    for (int64_t c = 0; c < columns; ++c) {
      y[begin + static_cast<size_t>(c)] *= length / std::sqrt(squares);
    }
  }
  return y;
}

TEST(NormalizeRows, MatchesReferenceAndFiniteDifference) {
  for (const DType dtype : kDTypes) {
    for (const Shape& shape : {Shape{1, 3}, Shape{5, 32}, Shape{3, 129}}) {
      constexpr float kLength = 3.5f;
      const TestTensor x = random_tensor(shape, dtype, 1), dy = random_tensor(shape, DType::f32, 2);
      const TestTensor y(shape, DType::f32), inverse({shape[0]}, DType::f32), dx(shape, dtype);
      normalize_rows(x.tensor, kLength, y.tensor, inverse.tensor);
      const auto values = to_doubles(x.tensor), slopes = to_doubles(dy.tensor);
      const auto normalized = [&](std::span<const double> at) {
        return reference_normalized(at, shape[1], static_cast<double>(kLength));
      };
      // The norm, its inverse and two products.
      expect_close(y.tensor, normalized(values), 4 * unit_roundoff(DType::f32), "vectors");
      normalize_rows_backward(dy.tensor, y.tensor, kLength, inverse.tensor, dx.tensor);
      const auto gradient = finite_difference(
          [&](std::span<const double> at) { return dot(normalized(at), slopes); }, values);
      expect_close(dx.tensor, gradient, 16 * unit_roundoff(DType::f32) + unit_roundoff(dtype),
                   "gradient");
    }
  }
}

TEST(NormalizeRows, LeavesZerosFinite) {
  const TestTensor x({2, 5}, DType::f32), y({2, 5}, DType::f32), inverse({2}, DType::f32);
  fill(x.tensor, 0.0);
  normalize_rows(x.tensor, 2.0f, y.tensor, inverse.tensor);
  EXPECT_EQ(to_doubles(y.tensor), std::vector<double>(10, 0.0));
  const TestTensor dy({2, 5}, DType::f32), dx({2, 5}, DType::f32);
  fill(dy.tensor, 0.0);
  normalize_rows_backward(dy.tensor, y.tensor, 2.0f, inverse.tensor, dx.tensor);
  EXPECT_EQ(to_doubles(dx.tensor), std::vector<double>(10, 0.0));
}

TEST(Pooling, RefusesWrongArguments) {
  const TestTensor x({4, 3}, DType::bf16), out({1, 3}, DType::f32), wide({1, 4}, DType::f32);
  const TestTensor ends = from_ints(std::vector<int32_t>{0, 4}, {2});
  expect_error([&] { pool_mean(x.tensor, ends.tensor, wide.tensor); }, {"pool_mean", "out"});
  expect_error([&] { pool_mean(x.tensor, out.tensor, out.tensor); }, {"documents", "int32"});
  const TestTensor full({4, 3}, DType::f32), half({1, 3}, DType::bf16);
  expect_error([&] { pool_mean(full.tensor, ends.tensor, half.tensor); }, {"out", "fp32"});
  expect_error([&] { pool_mean_backward(wide.tensor, ends.tensor, x.tensor); }, {"dout"});
  const TestTensor y({4, 3}, DType::f32), inverse({4}, DType::f32), few({3}, DType::f32);
  expect_error([&] { normalize_rows(x.tensor, 1.0f, y.tensor, few.tensor); }, {"inverse_norm"});
  expect_error([&] { normalize_rows(x.tensor, 0.0f, y.tensor, inverse.tensor); }, {"length", "0"});
  expect_error([&] { normalize_rows_backward(y.tensor, y.tensor, 1.0f, inverse.tensor, y.tensor); },
               {"dx", "y"});
}

}  // namespace
}  // namespace tessera
