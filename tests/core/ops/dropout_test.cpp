#include "core/ops/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>

#include "core/ops/elementwise.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr DType kDTypes[] = {DType::f32, DType::bf16};
constexpr int64_t kColumnCounts[] = {1, 3, 17, 65, 127, 769, 1030};

Dropout make_dropout(float probability, int64_t first_row = 0) {
  return {probability, {42, RandomPurpose::mlp_dropout, 3, 7}, first_row};
}

/// The contract in core/ops/dropout.h, element by element.
std::vector<double> expected_dropout(const Tensor& x, const Dropout& dropout) {
  auto values = to_doubles(x);
  const auto first = static_cast<uint64_t>(dropout.first_row * x.dim(-1));
  for (size_t i = 0; i < values.size(); ++i) {
    const bool dropped = random_bits(dropout.key, first + i) < dropout.threshold();
    values[i] = dropped ? 0.0 : values[i] / (1.0 - static_cast<double>(dropout.probability));
  }
  return values;
}

TEST(Dropout, MatchesReference) {
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : kColumnCounts) {
      const Dropout dropout = make_dropout(0.3f, 11);
      const TestTensor x = random_tensor({7, columns}, dtype, 1), y({7, columns}, dtype);
      dropout_forward(x.tensor, dropout, y.tensor);
      // The scale and the product are rounded in fp32.
      const double tolerance = unit_roundoff(dtype) + 3 * unit_roundoff(DType::f32);
      expect_close(y.tensor, expected_dropout(x.tensor, dropout), tolerance, "y");
    }
  }
}

TEST(Dropout, BackwardDropsTheSameElements) {
  const Dropout dropout = make_dropout(0.5f, 3);
  for (const DType dtype : kDTypes) {
    const TestTensor ones = from_doubles(std::vector<double>(5 * 769, 1.0), {5, 769}, dtype);
    const TestTensor y({5, 769}, dtype), dx({5, 769}, dtype);
    dropout_forward(ones.tensor, dropout, y.tensor);
    dropout_backward(ones.tensor, dropout, dx.tensor);
    expect_same_bits(dx.tensor, y.tensor, "dx of ones");
  }
}

TEST(Dropout, SplitBatchDropsTheSameElements) {
  constexpr int64_t kRows = 10;
  for (const int64_t columns : kColumnCounts) {
    const TestTensor x = random_tensor({kRows, columns}, DType::f32, 1);
    const TestTensor residual = random_tensor({kRows, columns}, DType::f32, 2);
    const TestTensor bias = random_tensor({columns}, DType::f32, 3);
    const TestTensor whole({kRows, columns}, DType::f32), sum({kRows, columns}, DType::f32);
    dropout_forward(x.tensor, make_dropout(0.1f), whole.tensor);
    bias_dropout_add(x.tensor, bias.tensor, residual.tensor, make_dropout(0.1f), sum.tensor);
    for (const int64_t cut : {1, 3, 7}) {
      for (const Range rows : {Range{0, cut}, Range{cut, kRows}}) {
        const Dropout dropout = make_dropout(0.1f, rows.begin);
        const Tensor part = x.tensor.slice(rows.begin, rows.end);
        const TestTensor y(part.shape(), DType::f32);
        dropout_forward(part, dropout, y.tensor);
        expect_same_bits(y.tensor, whole.tensor.slice(rows.begin, rows.end), "part of y");
        bias_dropout_add(part, bias.tensor, residual.tensor.slice(rows.begin, rows.end), dropout,
                         y.tensor);
        expect_same_bits(y.tensor, sum.tensor.slice(rows.begin, rows.end), "part of out");
      }
    }
  }
}

TEST(Dropout, RemovingPaddingDropsTheSameElements) {
  constexpr int64_t kRows = 10;
  const std::vector<int32_t> kept = {1, 2, 3, 6, 8, 9};
  const TestTensor rows = from_ints(kept, {static_cast<int64_t>(kept.size())});
  const auto compact = [&](const Tensor& padded) {
    const TestTensor result({rows.tensor.numel(), padded.dim(1)}, padded.dtype());
    for (size_t i = 0; i < kept.size(); ++i) {
      const auto to = static_cast<int64_t>(i);
      copy(padded.slice(kept[i], kept[i] + 1), result.tensor.slice(to, to + 1));
    }
    return copy_of(result.tensor);
  };
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : kColumnCounts) {
      const Dropout padded = make_dropout(0.3f, 4);
      Dropout without = padded;
      without.rows = rows.tensor;
      const TestTensor x = random_tensor({kRows, columns}, dtype, 1);
      const TestTensor residual = random_tensor({kRows, columns}, dtype, 2);
      const TestTensor bias = random_tensor({columns}, dtype, 3), y(x.tensor.shape(), dtype);
      const TestTensor x_kept = compact(x.tensor), residual_kept = compact(residual.tensor);
      const TestTensor y_kept(x_kept.tensor.shape(), dtype);

      dropout_forward(x.tensor, padded, y.tensor);
      dropout_forward(x_kept.tensor, without, y_kept.tensor);
      expect_same_bits(y_kept.tensor, compact(y.tensor).tensor, "y");
      dropout_backward(x_kept.tensor, without, y_kept.tensor);
      expect_same_bits(y_kept.tensor, compact(y.tensor).tensor, "dx");
      bias_dropout_add(x.tensor, bias.tensor, residual.tensor, padded, y.tensor);
      bias_dropout_add(x_kept.tensor, bias.tensor, residual_kept.tensor, without, y_kept.tensor);
      expect_same_bits(y_kept.tensor, compact(y.tensor).tensor, "out");
    }
  }
}

// The columns of tensor ranks, which are even and odd numbers.
TEST(Dropout, PartsOfColumnsDropTheSameElements) {
  constexpr int64_t kRows = 6;
  const TestTensor rows = from_ints(std::vector<int32_t>{0, 1, 4, 5, 8, 9}, {kRows});
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {17, 64, 769}) {
      for (const bool compact : {false, true}) {
        Dropout dropout = make_dropout(0.3f, 5);
        if (compact) dropout.rows = rows.tensor;
        const TestTensor x = random_tensor({kRows, columns}, dtype, 1),
                         whole({kRows, columns}, dtype);
        dropout_forward(x.tensor, dropout, whole.tensor);
        const std::vector<double> in = to_doubles(x.tensor), out = to_doubles(whole.tensor);
        const int64_t cuts[] = {0, columns / 4 / 8 * 8, columns / 2 + 1, columns, columns};
        for (size_t part = 0; part + 1 < std::size(cuts); ++part) {
          const int64_t first = cuts[part], width = cuts[part + 1] - first;
          std::vector<double> part_in, part_out;
          for (int64_t i = 0; i < kRows * width; ++i) {
            const auto at = static_cast<size_t>(i / width * columns + first + i % width);
            part_in.push_back(in[at]);
            part_out.push_back(out[at]);
          }
          dropout.first_column = first;
          dropout.total_columns = columns;
          const TestTensor y = from_doubles(part_in, {kRows, width}, dtype);
          dropout_backward(y.tensor, dropout, y.tensor);
          EXPECT_EQ(to_doubles(y.tensor), part_out) << columns << " from " << first;
        }
      }
    }
  }
}

TEST(Dropout, RefusesWrongColumns) {
  const TestTensor x({4, 8}, DType::f32);
  Dropout dropout = make_dropout(0.1f);
  dropout.first_column = 9, dropout.total_columns = 16;
  expect_error([&] { dropout_forward(x.tensor, dropout, x.tensor); },
               {"dropout_forward", "within 16", "begins at 9"});
  dropout.first_column = 8;
  EXPECT_NO_THROW(dropout_forward(x.tensor, dropout, x.tensor));
  expect_error([&] { bias_dropout_add(x.tensor, {}, x.tensor, dropout, x.tensor); },
               {"bias_dropout_add", "some of 16 columns", "needs all"});
}

TEST(Dropout, RefusesWrongRows) {
  const TestTensor x({4, 8}, DType::f32), few({3}, DType::i32), floats({4}, DType::f32);
  Dropout dropout = make_dropout(0.1f);
  dropout.rows = few.tensor;
  expect_error([&] { dropout_forward(x.tensor, dropout, x.tensor); },
               {"dropout_forward", "4 rows", "int32 (3)"});
  dropout.rows = floats.tensor;
  expect_error([&] { bias_dropout_add(x.tensor, {}, x.tensor, dropout, x.tensor); },
               {"bias_dropout_add", "int32", "fp32 (4)"});
}

/// A Dropout::rng_offset with this step and first sequence.
TestTensor rng_of(int64_t step, int64_t sequences) {
  TestTensor rng_offset({2}, DType::i64);
  rng_offset.tensor.span<int64_t>()[0] = step;
  rng_offset.tensor.span<int64_t>()[1] = sequences;
  return rng_offset;
}

TEST(Dropout, RngOffsetReplacesStepAndFirstRow) {
  constexpr int64_t kRows = 4;
  const TestTensor rows = from_ints(std::vector<int32_t>{0, 2, 3, 6}, {kRows});
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {8, 65}) {
      const TestTensor x = random_tensor({kRows, columns}, dtype, 1);
      const TestTensor expected({kRows, columns}, dtype), y({kRows, columns}, dtype);
      for (const bool compact : {false, true}) {
        Dropout told = make_dropout(0.3f, 15);
        if (compact) told.rows = rows.tensor;
        Dropout read = told;
        const TestTensor rng_offset = rng_of(told.key.step, 5);
        read.key.step = 99, read.first_row = 1000;  // ignored
        read.rng_offset = rng_offset.tensor, read.sequence_rows = 3;

        dropout_forward(x.tensor, told, expected.tensor);
        dropout_forward(x.tensor, read, y.tensor);
        expect_same_bits(y.tensor, expected.tensor, "y");
        dropout_backward(x.tensor, read, y.tensor);
        expect_same_bits(y.tensor, expected.tensor, "dx");
        bias_dropout_add(x.tensor, {}, x.tensor, told, expected.tensor);
        bias_dropout_add(x.tensor, {}, x.tensor, read, y.tensor);
        expect_same_bits(y.tensor, expected.tensor, "out");
      }
    }
  }
}

TEST(Dropout, RefusesWrongRngOffset) {
  const TestTensor x({4, 8}, DType::f32), three({3}, DType::i64), ints({2}, DType::i32);
  Dropout dropout = make_dropout(0.1f);
  dropout.rng_offset = three.tensor;
  expect_error([&] { dropout_forward(x.tensor, dropout, x.tensor); },
               {"dropout_forward", "the dropout's rng_offset", "(2)", "(3)"});
  dropout.rng_offset = ints.tensor;
  expect_error([&] { bias_dropout_add(x.tensor, {}, x.tensor, dropout, x.tensor); },
               {"bias_dropout_add", "the dropout's rng_offset", "int64"});
}

TEST(Dropout, RateIsWithinBinomialBounds) {
  constexpr int64_t kCount = 100000;
  const TestTensor ones = from_doubles(std::vector<double>(kCount, 1.0), {kCount}, DType::f32);
  const TestTensor y({kCount}, DType::f32);
  for (const float probability : {0.01f, 0.1f, 0.5f, 0.9f}) {
    dropout_forward(ones.tensor, make_dropout(probability), y.tensor);
    int64_t dropped = 0;
    for (const float value : y.tensor.span<float>()) dropped += value == 0.0f;
    const double p = probability;
    EXPECT_NEAR(static_cast<double>(dropped), p * kCount, 4.0 * std::sqrt(kCount * p * (1.0 - p)));
  }
}

TEST(Dropout, ZeroProbabilityCopies) {
  for (const DType dtype : kDTypes) {
    const TestTensor x = random_tensor({3, 17}, dtype, 1), y({3, 17}, dtype);
    dropout_forward(x.tensor, Dropout{}, y.tensor);
    expect_same_bits(y.tensor, x.tensor, "y");
    dropout_backward(x.tensor, Dropout{}, x.tensor);
    expect_same_bits(x.tensor, y.tensor, "dx in place of dy");
  }
}

TEST(Dropout, BiasDropoutAddMatchesReference) {
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : kColumnCounts) {
      for (const bool with_bias : {false, true}) {
        for (const float probability : {0.0f, 0.2f}) {
          const Dropout dropout = make_dropout(probability, 5);
          const TestTensor x = random_tensor({2, 3, columns}, dtype, 1);
          const TestTensor residual = random_tensor({2, 3, columns}, dtype, 2);
          const TestTensor bias = random_tensor({columns}, dtype, 3);
          auto inner = to_doubles(x.tensor);
          const auto biases = to_doubles(bias.tensor), adds = to_doubles(residual.tensor);
          for (size_t i = 0; i < inner.size(); ++i) {
            if (with_bias) inner[i] += biases[i % biases.size()];
          }
          const TestTensor exact = from_doubles(inner, x.tensor.shape(), DType::f32);
          auto expected = expected_dropout(exact.tensor, dropout);
          for (size_t i = 0; i < inner.size(); ++i) expected[i] += adds[i];

          const TestTensor out(x.tensor.shape(), dtype);
          const Tensor maybe_bias = with_bias ? bias.tensor : Tensor();
          bias_dropout_add(x.tensor, maybe_bias, residual.tensor, dropout, out.tensor);
          // Four roundings in fp32 of terms slightly larger than their sum.
          const double tolerance = unit_roundoff(dtype) + 8 * unit_roundoff(DType::f32);
          expect_close(out.tensor, expected, tolerance, "out");
          const TestTensor in_residual = copy_of(residual.tensor);
          bias_dropout_add(x.tensor, maybe_bias, in_residual.tensor, dropout, in_residual.tensor);
          expect_same_bits(in_residual.tensor, out.tensor, "out in place of residual");
          bias_dropout_add(x.tensor, maybe_bias, residual.tensor, dropout, x.tensor);
          expect_same_bits(x.tensor, out.tensor, "out in place of x");
        }
      }
    }
  }
}

TEST(Dropout, BitsDoNotDependOnThreads) {
  if (on_gpu()) GTEST_SKIP() << "a GPU op does not use the host's threads";
  const Shape shape{301, 769};
  const TestTensor x = random_tensor(shape, DType::f32, 1),
                   bias = random_tensor({769}, DType::f32, 2);
  const TestTensor y1(shape, DType::f32), out1(shape, DType::f32);
  const auto run = [&](int threads, const Tensor& y, const Tensor& out) {
    const ThreadCount count(threads);
    dropout_forward(x.tensor, make_dropout(0.1f), y);
    bias_dropout_add(x.tensor, bias.tensor, x.tensor, make_dropout(0.1f), out);
  };
  run(1, y1.tensor, out1.tensor);
  for (const int threads : {2, 3}) {
    const TestTensor y(shape, DType::f32), out(shape, DType::f32);
    run(threads, y.tensor, out.tensor);
    expect_same_bits(y.tensor, y1.tensor, "y");
    expect_same_bits(out.tensor, out1.tensor, "out");
  }
}

TEST(Dropout, RefusesWrongArguments) {
  const TestTensor x({4, 8}, DType::bf16, kMeta), bias({8}, DType::bf16, kMeta);
  const TestTensor wrong({8, 4}, DType::bf16, kMeta);
  dropout_forward(x.tensor, make_dropout(0.1f), x.tensor);
  dropout_backward(x.tensor, make_dropout(0.1f), x.tensor);
  bias_dropout_add(x.tensor, bias.tensor, x.tensor, make_dropout(0.1f), x.tensor);
  expect_error([&] { dropout_forward(x.tensor, make_dropout(1.0f), x.tensor); },
               {"dropout_forward", "probability", "[0, 1)", "1"});
  expect_error([&] { dropout_forward(x.tensor, make_dropout(0.1f), wrong.tensor); },
               {"dropout_forward", "y", "(4, 8)", "(8, 4)"});
  expect_error([&] { dropout_backward(x.tensor, make_dropout(0.1f, -1), x.tensor); },
               {"dropout_backward", "first_row", "-1"});
  expect_error(
      [&] { bias_dropout_add(x.tensor, x.tensor, x.tensor, make_dropout(0.1f), x.tensor); },
      {"bias_dropout_add", "bias", "(8)"});
  expect_error([&] { bias_dropout_add(x.tensor, {}, {}, make_dropout(0.1f), x.tensor); },
               {"bias_dropout_add", "residual", "undefined"});
}

}  // namespace
}  // namespace tessera
