#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/ops/attention.h"
#include "tests/support/attention/attention_masks.h"
#include "tests/support/attention/attention_reference.h"
#include "tests/support/expect_error.h"
#include "tests/support/finite_difference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

struct Sizes {
  int64_t batch, seq, heads, d;
  int64_t kv_heads = heads;

  Shape qkv() const { return {batch, seq, heads + 2 * kv_heads, d}; }
};

struct Case {
  MaskParts parts;
  Sizes sizes;
  float dropout;
  DType dtype;
};

/// A random table that covers a few positions more than the sequence has.
TestTensor random_table(const Sizes& sizes) {
  return random_tensor({sizes.heads, 2 * (sizes.seq + 3) - 1}, DType::f32, 4);
}

double bias_of(const Tensor& table, int64_t h, int64_t t, int64_t s) {
  const int64_t columns = table.dim(1);
  return double{table.data<float>()[h * columns + columns / 2 + s - t]};
}

AttentionOptions options_of(const Sizes& sizes, const AttentionMask& mask, float dropout,
                            const Tensor& table) {
  AttentionOptions options;
  options.scale = 1.0f / std::sqrt(static_cast<float>(sizes.d));
  options.mask = mask;
  options.dropout = {dropout, {7, RandomPurpose::attention_dropout, 3, 11}, 5};
  options.total_heads = sizes.heads;
  options.kv_heads = sizes.kv_heads;
  options.position_bias = table;
  return options;
}

AttentionReference reference_of(const Sizes& sizes, const AttentionOptions& options) {
  const auto [batch, seq, heads, d, kv_heads] = sizes;
  AttentionReference reference{batch, seq, heads, d, options.scale, {}, {}, {}, kv_heads};
  const AttentionMask mask = options.mask;
  reference.hidden = [=](int64_t b, int64_t h, int64_t t, int64_t s) {
    return hides(mask, seq, heads, b, h, t, s);
  };
  reference.additive = [=, table = options.position_bias](int64_t b, int64_t h, int64_t t,
                                                          int64_t s) {
    return additive_of(mask, seq, heads, b, h, t, s) + bias_of(table, h, t, s);
  };
  reference.factor = [=, dropout = options.dropout](int64_t b, int64_t h, int64_t t, int64_t s) {
    const int64_t row = ((dropout.first_row + b) * heads + h) * seq + t;
    const uint8_t byte = random_byte(dropout.key, static_cast<uint64_t>(row * seq + s));
    const auto [threshold, scale] = weight_dropout(dropout);
    return byte < threshold ? 0.0 : double{scale};
  };
  return reference;
}

/// The sums of all scores' gradients of a distance, shaped like the table.
std::vector<double> bias_gradient(const AttentionReference& reference, const Tensor& table,
                                  const std::vector<double>& qkv, const std::vector<double>& dout) {
  std::vector<double> sums(static_cast<size_t>(table.numel()), 0.0);
  const std::vector<double> dscores = reference.score_gradients(qkv, dout);
  const int64_t seq = reference.seq, columns = table.dim(1);
  for (size_t i = 0; i < dscores.size(); ++i) {
    const auto pair = static_cast<int64_t>(i);
    const int64_t s = pair % seq, t = pair / seq % seq, h = pair / seq / seq % reference.heads;
    const int64_t column = columns / 2 + s - t;
    // Pairs of different documents may be farther apart than the table reaches.
    if (column < 0 || column >= columns) continue;
    sums[static_cast<size_t>(h * columns + column)] += dscores[i];
  }
  return sums;
}

/// As in attention_test.cpp: roundings of scores become relative errors of weights.
double tolerance(const Case& c) {
  return sum_tolerance(c.dtype, c.sizes.d) * 4 + sum_tolerance(c.dtype, c.sizes.seq);
}

class AttentionPositionBias : public testing::TestWithParam<Case> {
 protected:
  const Case c = GetParam();
  const Shape rows{c.sizes.batch, c.sizes.seq, c.sizes.heads, c.sizes.d};
  const RandomMask random{c.parts, c.sizes.batch, c.sizes.seq, c.sizes.heads, 3};
  const TestTensor table = random_table(c.sizes);
  const AttentionOptions options = options_of(c.sizes, random.mask, c.dropout, table.tensor);
  const TestTensor qkv = random_tensor(c.sizes.qkv(), c.dtype, 1);
  const TestTensor dout = random_tensor(rows, c.dtype, 2);
};

TEST_P(AttentionPositionBias, MatchesReference) {
  const AttentionRun run(qkv.tensor, dout.tensor, options);
  const AttentionReference reference = reference_of(c.sizes, options);
  const auto in = to_doubles(qkv.tensor);
  const auto expected = reference.forward(in);
  expect_close(run.out.tensor, expected.out, tolerance(c), "out");
  expect_close(run.log_sum_exp.tensor, expected.log_sum_exp,
               sum_tolerance(DType::f32, c.sizes.d) * 4, "log_sum_exp");
  expect_close(run.dqkv.tensor, reference.backward(in, to_doubles(dout.tensor)), 4 * tolerance(c),
               "dqkv");
  // A sum of gradients of scores, each of which is a difference as in dqkv.
  expect_close(run.dposition_bias.tensor,
               bias_gradient(reference, table.tensor, in, to_doubles(dout.tensor)),
               4 * tolerance(c), "dposition_bias");
  const TestTensor weights({rows[0], rows[2], rows[1], rows[1]}, DType::f32);
  attention_weights(qkv.tensor, run.log_sum_exp.tensor, options, weights.tensor);
  expect_close(weights.tensor, reference.all_weights(in), 8 * sum_tolerance(DType::f32, c.sizes.d),
               "weights");
}

TEST_P(AttentionPositionBias, BitsDoNotDependOnTensorRanks) {
  const AttentionRun whole(qkv.tensor, dout.tensor, options);
  const int64_t columns = table.tensor.dim(1);
  const int64_t kv_heads = c.sizes.kv_heads, in_group = c.sizes.heads / kv_heads;
  for (const Range groups : {Range{0, 1}, Range{1, kv_heads}}) {
    const Range local{groups.begin * in_group, groups.end * in_group};
    AttentionOptions part_options = options;
    part_options.first_head = local.begin;
    part_options.kv_heads = groups.size();
    part_options.position_bias =
        table.tensor.view({c.sizes.heads, columns}).slice(local.begin, local.end);
    const auto its_groups = [&](const Tensor& of) {
      return groups_of(of, kv_heads, groups.begin, groups.end);
    };
    const AttentionRun part(its_groups(qkv.tensor).tensor,
                            heads_of(dout.tensor, local.begin, local.end).tensor, part_options);
    expect_same_bits(part.out.tensor, heads_of(whole.out.tensor, local.begin, local.end).tensor,
                     "out");
    expect_same_bits(part.dqkv.tensor, its_groups(whole.dqkv.tensor).tensor, "dqkv");
    expect_same_bits(part.dposition_bias.tensor,
                     whole.dposition_bias.tensor.slice(local.begin, local.end), "dposition_bias");
  }
}

TEST_P(AttentionPositionBias, BitsDoNotDependOnThreads) {
  if (on_gpu()) GTEST_SKIP() << "a GPU's blocks do not depend on the host's threads";
  const auto run = [&](int threads) {
    const ThreadCount count(threads);
    return AttentionRun(qkv.tensor, dout.tensor, options);
  };
  const AttentionRun one = run(1), three = run(3);
  expect_same_bits(three.dqkv.tensor, one.dqkv.tensor, "dqkv");
  expect_same_bits(three.dposition_bias.tensor, one.dposition_bias.tensor, "dposition_bias");
}

TEST_P(AttentionPositionBias, GradientIsAccumulated) {
  AttentionRun run(qkv.tensor, dout.tensor, options);
  const std::vector<double> once = to_doubles(run.dposition_bias.tensor);
  attention_backward(dout.tensor, qkv.tensor, run.out.tensor, run.log_sum_exp.tensor, options,
                     run.dqkv.tensor, run.dposition_bias.tensor);
  std::vector<double> twice;
  for (const double x : once) twice.push_back(2.0 * x);
  // The sums of the documents or sequences are added to what was there.
  expect_close(run.dposition_bias.tensor, twice, sum_tolerance(DType::f32, c.sizes.seq),
               "dposition_bias");
}

constexpr Sizes kSmall{2, 21, 3, 8}, kTiles{1, 130, 2, 16};
const Case kCases[] = {
    {{}, kSmall, 0.0f, DType::f32},
    {{.causal = true}, kTiles, 0.1f, DType::f32},
    {{.causal = true}, {1, 70, 2, 100}, 0.0f, DType::f32},
    {{.window = 30}, kTiles, 0.0f, DType::bf16},
    {{.lengths = true}, kSmall, 0.1f, DType::bf16},
    {{.causal = true, .documents = true}, {2, 90, 2, 64}, 0.0f, DType::bf16},
    {{.documents = true}, kTiles, 0.1f, DType::f32},
    {{.hidden_keys = true, .additive = Plane::heads}, kSmall, 0.0f, DType::f32},
    {{.causal = true, .window = 40, .documents = true, .hidden = Plane::heads},
     kTiles,
     0.1f,
     DType::bf16},
    {{}, {1, 40, 2, 136}, 0.0f, DType::bf16},
    {{.causal = true}, {1, 80, 2, 128}, 0.1f, DType::bf16},
    {{}, {1, 30, 2, 200}, 0.0f, DType::f32},
    {{.causal = true, .documents = true}, {1, 70, 6, 64, 2}, 0.1f, DType::bf16},
    {{.window = 30}, {2, 21, 4, 8, 2}, 0.0f, DType::f32},
    {{.causal = true, .prefix = 75, .documents = true}, kTiles, 0.1f, DType::f32},
    {{.window = 4, .global_tokens = 3, .documents = true}, kTiles, 0.0f, DType::bf16},
    {{.causal = true, .documents = true, .hidden = Plane::head_position}, kTiles, 0.1f, DType::f32},
    {{.documents = true, .additive = Plane::head_position}, kTiles, 0.0f, DType::bf16},
    {{.causal = true, .window = 5, .dilation = 3, .prefix = 9}, kTiles, 0.1f, DType::bf16},
    {{.window = 3, .dilation = 6, .global_tokens = 2}, {1, 40, 2, 136}, 0.0f, DType::f32},
};

INSTANTIATE_TEST_SUITE_P(Masks, AttentionPositionBias, testing::ValuesIn(kCases),
                         [](const auto& instance) {
                           return fmt::format("{}_{}", instance.index,
                                              to_string(instance.param.dtype));
                         });

TEST(AttentionPositionBiasReference, GradientMatchesFiniteDifferences) {
  constexpr Sizes kTiny{2, 5, 2, 3};
  AttentionMask mask;
  mask.causal = true;
  const TestTensor table = random_table(kTiny);
  const AttentionOptions options = options_of(kTiny, mask, 0.3f, table.tensor);
  AttentionReference reference = reference_of(kTiny, options);
  const auto qkv = to_doubles(random_tensor({2, 5, 6, 3}, DType::f32, 1).tensor);
  const auto dout = to_doubles(random_tensor({2, 5, 2, 3}, DType::f32, 2).tensor);
  const auto found = bias_gradient(reference, table.tensor, qkv, dout);
  const int64_t columns = table.tensor.dim(1);
  const auto numeric = finite_difference(
      [&](std::span<const double> x) {
        reference.additive = [&](int64_t, int64_t h, int64_t t, int64_t s) {
          return x[static_cast<size_t>(h * columns + columns / 2 + s - t)];
        };
        return dot(reference.forward(qkv).out, dout);
      },
      to_doubles(table.tensor));
  expect_close(found, numeric, 1e-8, "dposition_bias");
}

/// Attention of documents without padding, whose distances are those within a document.
TEST(AttentionPositionBiasWithoutPadding, TableCoversOneSequence) {
  constexpr Sizes kSizes{1, 17, 2, 8};
  constexpr int64_t kSequence = 10;
  const TestTensor documents = from_ints(std::vector<int32_t>{0, 7, 17}, {3});
  TestTensor places = from_ints(
      std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, {17});
  const TestTensor table = random_tensor({2, 2 * kSequence - 1}, DType::f32, 4);
  AttentionMask mask;
  mask.documents = documents.tensor;
  AttentionOptions options = options_of(kSizes, mask, 0.0f, table.tensor);
  options.padded_rows = {places.tensor, kSequence};
  const TestTensor qkv = random_tensor({1, 17, 6, 8}, DType::f32, 1);
  const TestTensor dout = random_tensor({1, 17, 2, 8}, DType::f32, 2);
  const AttentionRun run(qkv.tensor, dout.tensor, options);
  AttentionReference reference = reference_of(kSizes, options);
  reference.additive = [&](int64_t, int64_t h, int64_t t, int64_t s) {
    return hides(mask, 17, 2, 0, h, t, s) ? 0.0 : bias_of(table.tensor, h, t, s);
  };
  const Case c{{}, kSizes, 0.0f, DType::f32};
  const auto in = to_doubles(qkv.tensor);
  expect_close(run.out.tensor, reference.forward(in).out, tolerance(c), "out");
  expect_close(run.dqkv.tensor, reference.backward(in, to_doubles(dout.tensor)), 4 * tolerance(c),
               "dqkv");
  expect_close(run.dposition_bias.tensor,
               bias_gradient(reference, table.tensor, in, to_doubles(dout.tensor)),
               4 * tolerance(c), "dposition_bias");
}

TEST(AttentionPositionBiasErrors, RefusesGradientOfNothing) {
  const TestTensor qkv({1, 5, 6, 8}, DType::f32), out({1, 5, 2, 8}, DType::f32),
      lse({1, 2, 5}, DType::f32), dqkv({1, 5, 6, 8}, DType::f32), table({2, 9}, DType::f32);
  AttentionOptions options;
  options.total_heads = 2;
  expect_error(
      [&] {
        attention_backward(out.tensor, qkv.tensor, out.tensor, lse.tensor, options, dqkv.tensor,
                           table.tensor);
      },
      {"attention_backward: dposition_bias is given, but there is no position_bias"});
}

TEST(AttentionPositionBiasErrors, RefusesTablesThatDoNotFit) {
  const TestTensor qkv({1, 5, 6, 8}, DType::f32), out({1, 5, 2, 8}, DType::f32),
      lse({1, 2, 5}, DType::f32);
  const auto refuse = [&](const Shape& shape) {
    const TestTensor table(shape, DType::f32);
    AttentionOptions options;
    options.total_heads = 2;
    options.position_bias = table.tensor;
    expect_error([&] { attention_forward(qkv.tensor, options, out.tensor, lse.tensor); },
                 {"attention_forward: position_bias must have shape (Hl, 2R - 1) with 2 heads and "
                  "an R of at least 5",
                  to_string(shape).c_str()});
  };
  refuse({3, 9});
  refuse({2, 7});
  refuse({2, 10});
  refuse({18});
}

}  // namespace
}  // namespace tessera
