#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/ops/attention.h"
#include "tests/support/tensors.h"

// The examples of docs/masks.md, which a reader can check by hand: the scale of the scores is ln 2,
// so a weight is a power of two divided by the sum of the row's powers.

namespace tessera {
namespace {

constexpr int64_t kPositions = 4;

using test::TestTensor;
using Row = std::array<double, kPositions>;
using Pair = std::array<double, 2>;

constexpr std::array<Pair, kPositions> kQueries = {{{1, 0}, {0, 1}, {1, 1}, {2, 0}}};
constexpr std::array<Pair, kPositions> kKeys = {{{1, 1}, {0, 2}, {1, 0}, {0, 1}}};
constexpr std::array<Pair, kPositions> kValues = {{{1, 0}, {0, 1}, {1, 1}, {9, 9}}};

/// A table of the page, by rows.
struct Table {
  Row sums;
  std::array<Row, kPositions> weights;
  std::array<Pair, kPositions> outputs;
};

TestTensor rows_of_all() {
  std::vector<double> qkv;
  for (size_t t = 0; t < kPositions; ++t) {
    for (const auto* part : {&kQueries, &kKeys, &kValues}) {
      qkv.insert(qkv.end(), (*part)[t].begin(), (*part)[t].end());
    }
  }
  return test::from_doubles(qkv, {1, kPositions, 3, 2}, DType::f32);
}

/// Some roundings: a power of two comes from exp(ln 2 × q·k), with ln 2 rounded. Values are up to
/// 9, so the errors of outputs are ten times as large.
constexpr double kTolerance = 1e-6;

void expect_table(const AttentionMask& mask, const Table& table) {
  const TestTensor qkv = rows_of_all();
  const TestTensor out({1, kPositions, 1, 2}, DType::f32);
  const TestTensor log_sum_exp({1, 1, kPositions}, DType::f32);
  const TestTensor weights({1, 1, kPositions, kPositions}, DType::f32);
  AttentionOptions options;
  options.scale = std::numbers::ln2_v<float>;
  options.mask = mask;
  attention_forward(qkv.tensor, options, out.tensor, log_sum_exp.tensor);
  attention_weights(qkv.tensor, log_sum_exp.tensor, options, weights.tensor);
  for (size_t t = 0; t < kPositions; ++t) {
    SCOPED_TRACE(testing::Message() << "position " << t);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(out.tensor.data<float>()[2 * t + i], table.outputs[t][i], kTolerance * 10);
    }
    for (size_t s = 0; s < kPositions; ++s) {
      const float weight = weights.tensor.data<float>()[kPositions * t + s];
      // A hidden key has no weight at all.
      const double tolerance = table.weights[t][s] == 0 ? 0 : kTolerance;
      EXPECT_NEAR(weight, table.weights[t][s], tolerance) << "key " << s;
    }
    // A fully masked row: exp(−∞) = 0.
    const double sum = std::exp(double{log_sum_exp.tensor.data<float>()[t]});
    EXPECT_NEAR(sum, table.sums[t], kTolerance * table.sums[t]);
  }
}

TEST(MaskExamples, NoMask) {
  expect_table(AttentionMask::none(),
               {{6, 9, 12, 10},
                {{{1. / 3, 1. / 6, 1. / 3, 1. / 6},
                  {2. / 9, 4. / 9, 1. / 9, 2. / 9},
                  {1. / 3, 1. / 3, 1. / 6, 1. / 6},
                  {2. / 5, 1. / 10, 2. / 5, 1. / 10}}},
                {{{13. / 6, 2}, {7. / 3, 23. / 9}, {2, 2}, {17. / 10, 7. / 5}}}});
}

TEST(MaskExamples, Causal) {
  expect_table(AttentionMask::make_causal(),
               {{2, 6, 10, 10},
                {{{1, 0, 0, 0},
                  {1. / 3, 2. / 3, 0, 0},
                  {2. / 5, 2. / 5, 1. / 5, 0},
                  {2. / 5, 1. / 10, 2. / 5, 1. / 10}}},
                {{{1, 0}, {1. / 3, 2. / 3}, {3. / 5, 3. / 5}, {17. / 10, 7. / 5}}}});
}

TEST(MaskExamples, Padding) {
  const TestTensor lengths = test::from_ints(std::array<int32_t, 1>{3}, {1});
  AttentionMask mask;
  mask.lengths = lengths.tensor;
  expect_table(mask, {{5, 7, 10, 9},
                      {{{2. / 5, 1. / 5, 2. / 5, 0},
                        {2. / 7, 4. / 7, 1. / 7, 0},
                        {2. / 5, 2. / 5, 1. / 5, 0},
                        {4. / 9, 1. / 9, 4. / 9, 0}}},
                      {{{4. / 5, 3. / 5}, {3. / 7, 5. / 7}, {3. / 5, 3. / 5}, {8. / 9, 5. / 9}}}});
}

TEST(MaskExamples, CausalAndLeftPadding) {
  TestTensor hidden_keys({1, kPositions}, DType::u8);
  for (size_t s = 0; s < kPositions; ++s) hidden_keys.tensor.data<uint8_t>()[s] = s == 0 ? 1 : 0;
  AttentionMask mask = AttentionMask::make_causal();
  mask.hidden_keys = hidden_keys.tensor;
  expect_table(mask,
               {{0, 4, 6, 6},
                {{{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 2. / 3, 1. / 3, 0}, {0, 1. / 6, 2. / 3, 1. / 6}}},
                {{{0, 0}, {0, 1}, {1. / 3, 1}, {13. / 6, 7. / 3}}}});
}

}  // namespace
}  // namespace tessera
