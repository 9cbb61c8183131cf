#include "core/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/checked.h"
#include "core/range.h"
#include "tests/support/expect_error.h"
#include "tests/support/finite_difference.h"
#include "tests/support/reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr DType kDTypes[] = {DType::f32, DType::bf16};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Statistics {
  explicit Statistics(int64_t rows)
      : max({rows}, DType::f32), sum({rows}, DType::f32), target({rows}, DType::f32) {}
  void take(const Tensor& logits, const Tensor& targets, int64_t first, int64_t valid) {
    cross_entropy_statistics(logits, targets, first, valid, max.tensor, sum.tensor, target.tensor);
  }

  TestTensor max, sum, target;
};

/// Logits, and the slices of `ranks` ranks. Each slice has NaN padding, which must have no effect.
struct Sharded {
  Sharded(int64_t rows, int64_t columns, int64_t ranks, DType dtype)
      : logits(random_tensor({rows, columns}, dtype, 1, 3.0f)),
        targets(random_ints({rows}, -1, static_cast<int32_t>(columns), 2)) {
    const int64_t share = ceil_div(columns, ranks), width = share + 3;
    const auto values = to_doubles(logits.tensor);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      local_columns.push_back(intersect({rank * share, (rank + 1) * share}, {0, columns}));
      std::vector<double> local(static_cast<size_t>(rows * width), std::nan(""));
      for (int64_t n = 0; n < rows; ++n) {
        for (int64_t v = 0; v < local_columns.back().size(); ++v) {
          local[static_cast<size_t>(n * width + v)] =
              values[static_cast<size_t>(n * columns + local_columns.back().begin + v)];
        }
      }
      shards.push_back(from_doubles(local, {rows, width}, dtype));
    }
  }

  TestTensor logits, targets;
  std::vector<Range> local_columns;
  std::vector<TestTensor> shards;
};

/// The combined statistics of the ranks.
struct Combined {
  explicit Combined(const Sharded& s) {
    const int64_t rows = s.targets.tensor.numel();
    std::vector<double> max(static_cast<size_t>(rows), -INFINITY), sum(max.size()), target(sum);
    for (const bool summing : {false, true}) {
      for (size_t rank = 0; rank < s.shards.size(); ++rank) {
        Statistics local(rows);
        local.take(s.shards[rank].tensor, s.targets.tensor, s.local_columns[rank].begin,
                   s.local_columns[rank].size());
        for (size_t n = 0; n < max.size(); ++n) {
          const double row_max = local.max.tensor.span<float>()[n];
          if (!summing) max[n] = std::max(max[n], row_max);
          if (!summing) continue;
          sum[n] += local.sum.tensor.span<float>()[n] * std::exp(row_max - max[n]);
          target[n] += local.target.tensor.span<float>()[n];
        }
      }
    }
    for (size_t n = 0; n < max.size(); ++n) {
      log_sum_exp.push_back(max[n] + std::log(sum[n]));
      losses.push_back(s.targets.tensor.span<int32_t>()[n] < 0 ? 0.0 : log_sum_exp[n] - target[n]);
    }
  }

  std::vector<double> log_sum_exp, losses;
};

// The exponentials and their sum are within 1 ulp each. log_sum_exp, of magnitude up to 16, is
// rounded to fp32 before the gradient's exponential: an absolute error of 16 × 2⁻²⁴ there.
double tolerance(DType dtype, int64_t columns) {
  return sum_tolerance(dtype, columns) + 16 * unit_roundoff(DType::f32);
}

TEST(CrossEntropy, ShardsMatchReference) {
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {1, 3, 65, 769, 5003}) {
      for (const int64_t ranks : {1, 2, 3}) {
        constexpr int64_t kRows = 9;
        SCOPED_TRACE(fmt::format("{} {} columns on {} ranks", to_string(dtype), columns, ranks));
        const Sharded s(kRows, columns, ranks, dtype);
        const auto logits = to_doubles(s.logits.tensor);
        const auto targets = s.targets.tensor.span<int32_t>();
        const Combined combined(s);
        expect_close(combined.losses, reference::cross_entropy(logits, targets, columns),
                     tolerance(DType::f32, columns), "loss");

        constexpr float kScale = 0.25f;
        const TestTensor lse = from_doubles(combined.log_sum_exp, {kRows}, DType::f32);
        auto expected = reference::cross_entropy_gradient(logits, targets, columns);
        for (size_t rank = 0; rank < s.shards.size(); ++rank) {
          const Tensor& shard = s.shards[rank].tensor;
          cross_entropy_gradient(shard, s.targets.tensor, s.local_columns[rank].begin,
                                 s.local_columns[rank].size(), lse.tensor, kScale);
          std::vector<double> part;
          for (int64_t n = 0; n < kRows; ++n) {
            for (int64_t v = 0; v < shard.dim(1); ++v) {
              const bool real = v < s.local_columns[rank].size();
              const int64_t at = n * columns + s.local_columns[rank].begin + v;
              part.push_back(real ? kScale * expected[static_cast<size_t>(at)] : 0.0);
            }
          }
          expect_close(shard, part, tolerance(dtype, columns), "gradient");
        }
      }
    }
  }
}

// The last row of fp32 is longer than a GPU's shared memory.
TEST(CrossEntropy, WithGradientHasTheBitsOfItsParts) {
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {1, 3, 8, 65, 769, 5003, 60001}) {
      for (const int64_t width : {columns, round_up(columns, 8) + 8}) {
        constexpr int64_t kRows = 4;
        SCOPED_TRACE(fmt::format("{} {} of {} columns", to_string(dtype), columns, width));
        auto values = to_doubles(random_tensor({kRows, width}, dtype, 1, 3.0f).tensor);
        for (int64_t n = 0; n < kRows; ++n) {
          for (int64_t v = columns; v < width; ++v) {
            values[static_cast<size_t>(n * width + v)] = std::nan("");
          }
        }
        const TestTensor logits = from_doubles(values, {kRows, width}, dtype);
        const TestTensor targets = from_ints({{0, kIgnoreTarget, static_cast<int32_t>(columns) - 1,
                                               static_cast<int32_t>(columns) / 2}},
                                             {kRows});
        const TestTensor gradient = copy_of(logits.tensor), lse({kRows}, DType::f32);
        const TestTensor loss({1}, DType::f64);
        Statistics parts(kRows), whole(kRows);
        parts.take(gradient.tensor, targets.tensor, 0, columns);
        cross_entropy_loss(parts.max.tensor, parts.sum.tensor, parts.target.tensor, targets.tensor,
                           lse.tensor, loss.tensor);
        cross_entropy_gradient(gradient.tensor, targets.tensor, 0, columns, lse.tensor, 0.25f);

        cross_entropy_with_gradient(logits.tensor, targets.tensor, columns, 0.25f, whole.max.tensor,
                                    whole.sum.tensor, whole.target.tensor);
        expect_same_bits(whole.max.tensor, parts.max.tensor, "row_max");
        expect_same_bits(whole.sum.tensor, parts.sum.tensor, "row_sum");
        expect_same_bits(whole.target.tensor, parts.target.tensor, "target_logit");
        expect_same_bits(logits.tensor, gradient.tensor, "gradient");
      }
    }
  }
}

TEST(CrossEntropy, ReadsScaleFromDevice) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TestTensor told = random_tensor({5, 17}, dtype, 1), read = copy_of(told.tensor);
    const TestTensor targets = random_ints({5}, -1, 17, 2), lse({5}, DType::f32);
    const TestTensor scale = from_doubles(std::vector<double>{0.3f}, {1}, DType::f32);
    cross_entropy_gradient(told.tensor, targets.tensor, 0, 17, lse.tensor, 0.3f);
    cross_entropy_gradient(read.tensor, targets.tensor, 0, 17, lse.tensor, Scalar(scale.tensor));
    expect_same_bits(read.tensor, told.tensor, "gradient");
    const TestTensor again = random_tensor({5, 17}, dtype, 1), all = copy_of(again.tensor);
    Statistics s(5);
    cross_entropy_with_gradient(again.tensor, targets.tensor, 17, 0.3f, s.max.tensor, s.sum.tensor,
                                s.target.tensor);
    cross_entropy_with_gradient(all.tensor, targets.tensor, 17, Scalar(scale.tensor), s.max.tensor,
                                s.sum.tensor, s.target.tensor);
    expect_same_bits(all.tensor, again.tensor, "gradient of cross_entropy_with_gradient");
    expect_error(
        [&] {
          cross_entropy_gradient(read.tensor, targets.tensor, 0, 17, lse.tensor,
                                 Scalar(lse.tensor));
        },
        {"cross_entropy_gradient", "scale", "(1)", "(5)"});
  }
}

TEST(CrossEntropy, ReferenceMatchesFiniteDifferences) {
  const auto logits = to_doubles(random_tensor({3, 7}, DType::f32, 1).tensor);
  const std::vector<int32_t> targets = {6, -1, 2};
  const auto loss = [&](reference::View x) {
    double total = 0.0;
    for (const double row : reference::cross_entropy(x, targets, 7)) total += row;
    return total;
  };
  // The error of central differences at h = 1e-5.
  expect_close(reference::cross_entropy_gradient(logits, targets, 7),
               finite_difference(loss, logits), 1e-8, "gradient");
}

TEST(CrossEntropy, ExtremeRows) {
  constexpr int64_t kColumns = 4100;  // three tiles
  std::vector<double> rows(3 * kColumns, -INFINITY);
  rows[static_cast<size_t>(kColumns) - 1] = 2.0;  // one finite logit, after tiles of −∞
  for (int64_t v = 0; v < kColumns; ++v) {
    rows[static_cast<size_t>(kColumns + v)] = 1e4 + 100.0 * static_cast<double>(v);  // ascending
    rows[static_cast<size_t>(2 * kColumns + v)] = std::nan("");
  }
  const TestTensor logits = from_doubles(rows, {3, kColumns}, DType::f32);
  const TestTensor targets = from_ints({{kColumns - 1, 0, 0}}, {3});
  Statistics s(3);
  s.take(logits.tensor, targets.tensor, 0, kColumns);
  const auto max = s.max.tensor.span<float>(), sum = s.sum.tensor.span<float>();
  EXPECT_EQ(max[0], 2.0f);
  EXPECT_EQ(sum[0], 1.0f);
  EXPECT_EQ(max[1], 1e4f + 100.0f * (kColumns - 1));
  EXPECT_EQ(sum[1], 1.0f);
  EXPECT_TRUE(std::isnan(sum[2])) << "NaN must propagate";
}

TEST(CrossEntropy, CombinesStatisticsOfRanks) {
  for (const int64_t rows : {1, 31, 33, 1025, 2500}) {
    const TestTensor local = random_tensor({rows}, DType::f32, 1);
    const TestTensor targets = random_ints({rows}, -1, 2, 3), target_logit = copy_of(local.tensor);
    const TestTensor sum({rows}, DType::f32), global({rows}, DType::f32);
    const TestTensor loss({1}, DType::f64), correct({1}, DType::f64);
    std::vector<double> sums, lse;
    double total = 2.0, count = 3.0;
    for (size_t n = 0; n < static_cast<size_t>(rows); ++n) {
      const bool largest = n % 3 == 0;
      const float max = local.tensor.span<float>()[n];
      sum.tensor.span<float>()[n] = 1.0f + static_cast<float>(n % 7);
      global.tensor.span<float>()[n] = largest ? max : max + 0.5f;
      sums.push_back(static_cast<double>(1 + n % 7) * (largest ? 1.0 : std::exp(-0.5)));
      lse.push_back(static_cast<double>(global.tensor.span<float>()[n]) + std::log(sums[n]));
      if (targets.tensor.span<int32_t>()[n] == kIgnoreTarget) continue;
      total += lse[n] - static_cast<double>(max);
      count += largest ? 1.0 : 0.0;
    }
    loss.tensor.span<double>()[0] = 2.0;
    correct.tensor.span<double>()[0] = 3.0;
    rescale_sum_exp(local.tensor, global.tensor, sum.tensor);
    expect_close(sum.tensor, sums, 4 * unit_roundoff(DType::f32), "sum");
    cross_entropy_correct(global.tensor, target_logit.tensor, targets.tensor, correct.tensor);
    EXPECT_EQ(correct.tensor.span<double>()[0], count);
    cross_entropy_loss(global.tensor, sum.tensor, target_logit.tensor, targets.tensor,
                       global.tensor, loss.tensor);
    expect_close(global.tensor, lse, 8 * unit_roundoff(DType::f32), "log_sum_exp");
    EXPECT_NEAR(loss.tensor.span<double>()[0], total, 8 * unit_roundoff(DType::f32) * total);
  }
}

TEST(CrossEntropy, RankWithoutVocabularyKeepsZeroSum) {
  const TestTensor local = from_doubles(std::vector<double>{-INFINITY, -INFINITY}, {2}, DType::f32);
  const TestTensor global = from_doubles(std::vector<double>{1.0, -INFINITY}, {2}, DType::f32);
  const TestTensor sum({2}, DType::f32);
  rescale_sum_exp(local.tensor, global.tensor, sum.tensor);
  EXPECT_EQ(to_doubles(sum.tensor), (std::vector<double>{0.0, 0.0}));
}

TEST(CrossEntropy, RankWithoutVocabularyHasMaximumMinusInfinity) {
  const TestTensor logits = random_tensor({2, 5}, DType::bf16, 1), lse({2}, DType::f32);
  const TestTensor targets = from_ints({{3, 9}}, {2});
  Statistics s(2);
  s.take(logits.tensor, targets.tensor, 10, 0);
  for (size_t n = 0; n < 2; ++n) {
    EXPECT_EQ(s.max.tensor.span<float>()[n], -kInfinity);
    EXPECT_EQ(s.sum.tensor.span<float>()[n], 0.0f);
    EXPECT_EQ(s.target.tensor.span<float>()[n], 0.0f);
  }
  cross_entropy_gradient(logits.tensor, targets.tensor, 10, 0, lse.tensor, 1.0f);
  expect_same_bits(logits.tensor, TestTensor({2, 5}, DType::bf16).tensor, "gradient of padding");
}

TEST(CrossEntropy, BitsDoNotDependOnThreads) {
  constexpr int64_t kRows = 50, kColumns = 4999;
  const TestTensor logits = random_tensor({kRows, kColumns}, DType::bf16, 1);
  const TestTensor targets = random_ints({kRows}, -1, kColumns, 2);
  Statistics expected(kRows);
  TestTensor gradient;
  for (const int threads : {1, 2, 3}) {
    const ThreadCount count(threads);
    Statistics s(kRows);
    s.take(logits.tensor, targets.tensor, 0, kColumns);
    TestTensor dlogits = copy_of(logits.tensor);
    cross_entropy_gradient(dlogits.tensor, targets.tensor, 0, kColumns, s.max.tensor, 1.0f);
    if (threads == 1) {
      expected = std::move(s);
      gradient = std::move(dlogits);
      continue;
    }
    expect_same_bits(s.max.tensor, expected.max.tensor, "row_max");
    expect_same_bits(s.sum.tensor, expected.sum.tensor, "row_sum");
    expect_same_bits(s.target.tensor, expected.target.tensor, "target_logit");
    expect_same_bits(dlogits.tensor, gradient.tensor, "gradient");
  }
}

TEST(CrossEntropy, RefusesWrongArguments) {
  const TestTensor logits({4, 8}, DType::bf16, kMeta), targets({4}, DType::i32, kMeta);
  const TestTensor row({4}, DType::f32, kMeta), wrong({5}, DType::f32, kMeta);
  const auto statistics = [&](int64_t valid, const Tensor& ids, const Tensor& max) {
    cross_entropy_statistics(logits.tensor, ids, 0, valid, max, row.tensor, row.tensor);
  };
  statistics(8, targets.tensor, row.tensor);
  cross_entropy_gradient(logits.tensor, targets.tensor, 0, 7, row.tensor, 1.0f);
  expect_error([&] { statistics(9, targets.tensor, row.tensor); },
               {"cross_entropy_statistics", "valid", "8 columns", "9"});
  expect_error([&] { statistics(8, row.tensor, row.tensor); },
               {"cross_entropy_statistics", "targets", "int32"});
  expect_error([&] { statistics(8, targets.tensor, wrong.tensor); },
               {"cross_entropy_statistics", "row_max", "(4)", "(5)"});
  expect_error(
      [&] { cross_entropy_gradient(logits.tensor, targets.tensor, 0, 8, wrong.tensor, 1.0f); },
      {"cross_entropy_gradient", "log_sum_exp"});
  const auto with_gradient = [&](int64_t valid, const Tensor& sum, const Scalar& scale) {
    cross_entropy_with_gradient(logits.tensor, targets.tensor, valid, scale, row.tensor, sum,
                                row.tensor);
  };
  with_gradient(7, row.tensor, 1.0f);
  expect_error([&] { with_gradient(9, row.tensor, 1.0f); },
               {"cross_entropy_with_gradient", "valid", "8 columns", "9"});
  expect_error([&] { with_gradient(8, wrong.tensor, 1.0f); },
               {"cross_entropy_with_gradient", "row_sum", "(4)", "(5)"});
  expect_error([&] { with_gradient(8, row.tensor, Scalar(wrong.tensor)); },
               {"cross_entropy_with_gradient", "scale", "(1)", "(5)"});
}

}  // namespace
}  // namespace tessera
