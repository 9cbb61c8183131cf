#include "core/masks/attention_mask.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/ops/attention.h"
#include "tests/support/attention/attention_masks.h"
#include "tests/support/attention/attention_reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

struct Sizes {
  int64_t batch, seq, heads, kv_heads, d;

  Shape qkv() const { return {batch, seq, heads + 2 * kv_heads, d}; }
};

constexpr Sizes kSmall{2, 21, 4, 2, 8};
constexpr Sizes kLarge{2, 150, 8, 4, 16};
constexpr Sizes kThreeTiles{1, 130, 2, 2, 8};  // small, because the reference is slow

AttentionOptions options_of(const Sizes& sizes, const AttentionMask& mask, float dropout = 0.1f) {
  AttentionOptions options;
  options.scale = 1.0f / std::sqrt(static_cast<float>(sizes.d));
  options.mask = mask;
  options.dropout = {dropout, {7, RandomPurpose::attention_dropout, 3, 11}, 5};
  options.total_heads = sizes.heads;
  options.kv_heads = sizes.kv_heads;
  return options;
}

/// As in attention_test.cpp: roundings of scores become relative errors of weights.
double tolerance(const Sizes& sizes, DType dtype) {
  return sum_tolerance(dtype, sizes.d) * 4 + sum_tolerance(dtype, sizes.seq);
}

AttentionReference reference_of(const Sizes& sizes, const AttentionOptions& options) {
  const auto [batch, seq, heads, kv_heads, d] = sizes;
  AttentionReference reference{batch, seq, heads, d, options.scale, {}, {}, {}, kv_heads};
  const AttentionMask mask = options.mask;
  reference.hidden = [=](int64_t b, int64_t h, int64_t t, int64_t s) {
    return hides(mask, seq, heads, b, h, t, s);
  };
  reference.additive = [=](int64_t b, int64_t h, int64_t t, int64_t s) {
    return additive_of(mask, seq, heads, b, h, t, s);
  };
  reference.factor = [=, dropout = options.dropout](int64_t b, int64_t h, int64_t t, int64_t s) {
    const int64_t row = ((dropout.first_row + b) * heads + h) * seq + t;
    const uint8_t byte = random_byte(dropout.key, static_cast<uint64_t>(row * seq + s));
    const auto [threshold, scale] = weight_dropout(dropout);
    return byte < threshold ? 0.0 : double{scale};
  };
  return reference;
}

/// Every part alone, and common combinations.
const std::vector<MaskParts> kParts = {
    {},
    {.causal = true},
    {.window = 5},
    {.lengths = true},
    {.hidden_keys = true},
    {.documents = true},
    {.hidden = Plane::square},
    {.hidden = Plane::batch},
    {.hidden = Plane::heads},
    {.additive = Plane::square},
    {.additive = Plane::batch},
    {.additive = Plane::heads},
    {.causal = true, .window = 70},
    {.causal = true, .lengths = true},
    {.causal = true, .hidden_keys = true},
    {.causal = true, .documents = true},
    {.causal = true, .hidden = Plane::batch},
    {.causal = true, .additive = Plane::heads},
    {.window = 7, .lengths = true},
    {.window = 7, .hidden_keys = true},
    {.causal = true, .window = 9, .documents = true},
    {.lengths = true, .documents = true},
    {.lengths = true, .hidden = Plane::heads},
    {.documents = true, .hidden = Plane::square},
    {.documents = true, .additive = Plane::heads},
    {.hidden_keys = true, .additive = Plane::batch},
    {.hidden = Plane::square, .additive = Plane::heads},
    {.causal = true, .prefix = 9},
    {.causal = true, .prefix = 90, .documents = true},
    {.causal = true, .prefix = 67, .lengths = true},
    {.causal = true, .window = 5, .prefix = 11},
    {.window = 3, .global_tokens = 2},
    {.window = 5, .global_tokens = 70},
    {.window = 9, .global_tokens = 3, .documents = true},
    {.causal = true, .window = 4, .global_tokens = 1},
    {.causal = true, .window = 6, .global_tokens = 5, .documents = true},
    {.window = 4, .global_tokens = 3, .lengths = true, .hidden_keys = true},
    {.window = 3, .dilation = 2},
    {.causal = true, .window = 4, .dilation = 3},
    {.window = 2, .dilation = 65, .documents = true},
    {.window = 5, .dilation = 3, .global_tokens = 2, .documents = true},
    {.causal = true, .window = 3, .dilation = 5, .prefix = 20, .global_tokens = 4},
    {.hidden = Plane::position},
    {.hidden = Plane::head_position},
    {.additive = Plane::position},
    {.additive = Plane::head_position},
    {.causal = true, .documents = true, .hidden = Plane::head_position},
    {.causal = true, .documents = true, .additive = Plane::position},
    {.documents = true, .hidden = Plane::position, .additive = Plane::head_position},
    {.hidden_keys = true, .documents = true, .hidden = Plane::head_position},
    {.window = 9, .lengths = true, .hidden = Plane::position},
    {.documents = true, .hidden = Plane::heads, .additive = Plane::position},
    {.documents = true, .hidden = Plane::position, .additive = Plane::batch},
    {.causal = true,
     .window = 6,
     .dilation = 3,
     .prefix = 40,
     .global_tokens = 6,
     .lengths = true,
     .documents = true,
     .hidden = Plane::head_position},
    {.causal = true,
     .window = 6,
     .dilation = 7,
     .prefix = 40,
     .global_tokens = 6,
     .lengths = true,
     .documents = true,
     .additive = Plane::batch},
    {.causal = true,
     .window = 40,
     .lengths = true,
     .hidden_keys = true,
     .documents = true,
     .hidden = Plane::heads,
     .additive = Plane::batch},
};

class AttentionMasks : public testing::TestWithParam<std::tuple<size_t, DType>> {
 protected:
  const MaskParts parts = kParts[std::get<0>(GetParam())];
  const DType dtype = std::get<1>(GetParam());
};

/// Both passes and the weights of one attention.
void expect_the_textbooks(const MaskParts& parts, const Sizes& sizes, DType dtype, float dropout) {
  const auto [batch, seq, heads, kv_heads, d] = sizes;
  const RandomMask random(parts, batch, seq, heads, 3);
  const AttentionOptions options = options_of(sizes, random.mask, dropout);
  const TestTensor qkv = random_tensor(sizes.qkv(), dtype, 1);
  const TestTensor dout = random_tensor({batch, seq, heads, d}, dtype, 2);
  const AttentionRun run(qkv.tensor, dout.tensor, options);
  const AttentionReference reference = reference_of(sizes, options);
  const auto expected = reference.forward(to_doubles(qkv.tensor));
  expect_close(run.out.tensor, expected.out, tolerance(sizes, dtype), "out");
  expect_close(run.log_sum_exp.tensor, expected.log_sum_exp, sum_tolerance(DType::f32, d) * 4,
               "log_sum_exp");
  // The gradient of a score is the difference of two rounded terms. Where a query sees few keys,
  // both are several times as large as typical gradients.
  expect_close(run.dqkv.tensor, reference.backward(to_doubles(qkv.tensor), to_doubles(dout.tensor)),
               8 * tolerance(sizes, dtype), "dqkv");

  const TestTensor weights({batch, heads, seq, seq}, DType::f32);
  attention_weights(qkv.tensor, run.log_sum_exp.tensor, options, weights.tensor);
  expect_close(weights.tensor, reference.all_weights(to_doubles(qkv.tensor)),
               8 * sum_tolerance(DType::f32, d), "weights");
}

TEST_P(AttentionMasks, MatchReference) {
  for (const Sizes& sizes : {kSmall, kThreeTiles}) {
    SCOPED_TRACE(sizes.seq);
    expect_the_textbooks(parts, sizes, dtype, 0.1f);
    // Without dropout cuDNN may compute masks with documents or lengths.
    if (parts.documents || parts.lengths) expect_the_textbooks(parts, sizes, dtype, 0.0f);
  }
}

TEST_P(AttentionMasks, BitsDoNotDependOnTensorRanks) {
  const Sizes sizes = on_gpu() ? kThreeTiles : kLarge;  // emulated GPUs are slow
  const auto [batch, seq, heads, kv_heads, d] = sizes;
  const RandomMask random(parts, batch, seq, heads, 3);
  AttentionOptions options = options_of(sizes, random.mask);
  const TestTensor qkv = random_tensor(sizes.qkv(), dtype, 1);
  const TestTensor dout = random_tensor({batch, seq, heads, d}, dtype, 2);
  const AttentionRun whole(qkv.tensor, dout.tensor, options);
  for (const int64_t ranks : {kv_heads / 2, kv_heads}) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const Range local{rank * kv_heads / ranks, (rank + 1) * kv_heads / ranks};
      const Range local_heads{rank * heads / ranks, (rank + 1) * heads / ranks};
      options.first_head = local_heads.begin;
      options.kv_heads = local.size();
      const auto groups = [&](const Tensor& of) {
        return groups_of(of, kv_heads, local.begin, local.end);
      };
      const auto its_heads = [&](const Tensor& of) {
        return heads_of(of, local_heads.begin, local_heads.end);
      };
      const AttentionRun part(groups(qkv.tensor).tensor, its_heads(dout.tensor).tensor, options);
      expect_same_bits(part.out.tensor, its_heads(whole.out.tensor).tensor, "out");
      expect_same_bits(part.dqkv.tensor, groups(whole.dqkv.tensor).tensor, "dqkv");
    }
  }
}

TEST_P(AttentionMasks, BitsDoNotDependOnThreads) {
  if (on_gpu()) GTEST_SKIP() << "a GPU's blocks do not depend on the host's threads";
  const auto [batch, seq, heads, kv_heads, d] = kLarge;
  const RandomMask random(parts, batch, seq, heads, 3);
  const AttentionOptions options = options_of(kLarge, random.mask);
  const TestTensor qkv = random_tensor(kLarge.qkv(), dtype, 1);
  const TestTensor dout = random_tensor({batch, seq, heads, d}, dtype, 2);
  const auto run = [&](int threads) {
    const ThreadCount count(threads);
    return AttentionRun(qkv.tensor, dout.tensor, options);
  };
  const AttentionRun one = run(1), three = run(3);
  expect_same_bits(three.out.tensor, one.out.tensor, "out");
  expect_same_bits(three.log_sum_exp.tensor, one.log_sum_exp.tensor, "log_sum_exp");
  expect_same_bits(three.dqkv.tensor, one.dqkv.tensor, "dqkv");
}

INSTANTIATE_TEST_SUITE_P(Kinds, AttentionMasks,
                         testing::Combine(testing::Range(size_t{0}, kParts.size()),
                                          testing::Values(DType::f32, DType::bf16)),
                         [](const auto& instance) {
                           return fmt::format("{}_{}", std::get<0>(instance.param),
                                              to_string(std::get<1>(instance.param)));
                         });

}  // namespace
}  // namespace tessera
