#include "core/ops/attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "tests/support/attention/attention_reference.h"
#include "tests/support/expect_error.h"
#include "tests/support/finite_difference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::AttentionReference;
using test::random_tensor;
using test::TestTensor;
using test::to_doubles;

struct Case {
  int64_t batch, seq, heads, d;
  bool causal;
  float dropout;
  DType dtype;
  int64_t kv_heads = heads;

  int64_t heads_of_qkv() const { return heads + 2 * kv_heads; }
};

/// Roundings of weights and values enter a weighted mean, so their error does not grow with T.
/// exp turns the roundings of scores, sums of d products, into relative errors.
double tolerance(const Case& c) {
  return test::sum_tolerance(c.dtype, c.d) * 4 + test::sum_tolerance(c.dtype, c.seq);
}

AttentionOptions options_of(const Case& c) {
  AttentionOptions options;
  options.scale = 1.0f / std::sqrt(static_cast<float>(c.d));
  options.mask.causal = c.causal;
  options.dropout.probability = c.dropout;
  options.dropout.key = {7, RandomPurpose::attention_dropout, 3, 11};
  options.dropout.first_row = 5;
  options.first_head = 2;
  options.total_heads = c.heads + 3;
  options.kv_heads = c.kv_heads;
  return options;
}

AttentionReference reference_of(const Case& c, const AttentionOptions& options) {
  AttentionReference reference{c.batch, c.seq, c.heads, c.d, options.scale, {}, {}, {}, c.kv_heads};
  reference.hidden = [c](int64_t, int64_t, int64_t t, int64_t s) { return c.causal && s > t; };
  reference.factor = [c, options](int64_t b, int64_t h, int64_t t, int64_t s) {
    if (!options.dropout.active()) return 1.0;
    const int64_t row =
        ((options.dropout.first_row + b) * options.total_heads + options.first_head + h) * c.seq +
        t;
    const uint8_t byte = random_byte(options.dropout.key, static_cast<uint64_t>(row * c.seq + s));
    const WeightDropout dropout = weight_dropout(options.dropout);
    return byte < dropout.threshold ? 0.0 : double{dropout.scale};
  };
  return reference;
}

class Attention : public testing::TestWithParam<Case> {
 protected:
  const Case c = GetParam();
  const AttentionOptions options = options_of(c);
  const AttentionReference reference = reference_of(c, options);
  const TestTensor qkv = random_tensor({c.batch, c.seq, c.heads_of_qkv(), c.d}, c.dtype, 1);
  TestTensor out{{c.batch, c.seq, c.heads, c.d}, c.dtype};
  TestTensor lse{{c.batch, c.heads, c.seq}, DType::f32};
};

TEST_P(Attention, ForwardMatchesReference) {
  attention_forward(qkv.tensor, options, out.tensor, lse.tensor);
  const auto expected = reference.forward(to_doubles(qkv.tensor));
  test::expect_close(out.tensor, expected.out, tolerance(c), "out");
  test::expect_close(lse.tensor, expected.log_sum_exp, test::sum_tolerance(DType::f32, c.d) * 4,
                     "log_sum_exp");
}

TEST_P(Attention, BackwardMatchesReference) {
  const TestTensor dout = random_tensor(out.tensor.shape(), c.dtype, 2);
  TestTensor dqkv(qkv.tensor.shape(), c.dtype);
  attention_forward(qkv.tensor, options, out.tensor, lse.tensor);
  attention_backward(dout.tensor, qkv.tensor, out.tensor, lse.tensor, options, dqkv.tensor);
  const auto expected = reference.backward(to_doubles(qkv.tensor), to_doubles(dout.tensor));
  // rowsum(dO ∘ O) reads the rounded output, and dS is a difference of two such numbers, which are
  // several times as large as typical gradients where a query sees few keys.
  test::expect_close(dqkv.tensor, expected, 8 * tolerance(c), "dqkv");
}

TEST_P(Attention, BitsDoNotDependOnThreads) {
  if (test::on_gpu()) GTEST_SKIP() << "a GPU's blocks do not depend on the host's threads";
  const TestTensor dout = random_tensor(out.tensor.shape(), c.dtype, 2);
  const auto run = [&](int threads) {
    const test::ThreadCount count(threads);
    TestTensor dqkv(qkv.tensor.shape(), c.dtype);
    attention_forward(qkv.tensor, options, out.tensor, lse.tensor);
    attention_backward(dout.tensor, qkv.tensor, out.tensor, lse.tensor, options, dqkv.tensor);
    return dqkv;
  };
  const TestTensor one = run(1), three = run(3);
  test::expect_same_bits(one.tensor, three.tensor, "dqkv");
}

TEST_P(Attention, RngOffsetReplacesStepAndFirstRow) {
  TestTensor rng_offset({2}, DType::i64);
  rng_offset.tensor.span<int64_t>()[0] = options.dropout.key.step;
  rng_offset.tensor.span<int64_t>()[1] = options.dropout.first_row;
  AttentionOptions read = options;
  read.dropout.key.step = 99, read.dropout.first_row = 1000;  // ignored
  read.dropout.rng_offset = rng_offset.tensor;
  const TestTensor dout = random_tensor(out.tensor.shape(), c.dtype, 2);
  const auto run = [&](const AttentionOptions& its_options) {
    TestTensor dqkv(qkv.tensor.shape(), c.dtype);
    attention_forward(qkv.tensor, its_options, out.tensor, lse.tensor);
    attention_backward(dout.tensor, qkv.tensor, out.tensor, lse.tensor, its_options, dqkv.tensor);
    return std::pair(test::copy_of(out.tensor), std::move(dqkv));
  };
  const auto [expected_out, expected] = run(options);
  const auto [found_out, found] = run(read);
  test::expect_same_bits(found_out.tensor, expected_out.tensor, "out");
  test::expect_same_bits(found.tensor, expected.tensor, "dqkv");
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Attention,
    testing::Values(
        Case{1, 1, 1, 1, true, 0.0f, DType::f32}, Case{2, 7, 3, 5, true, 0.0f, DType::f32},
        Case{2, 7, 3, 5, false, 0.0f, DType::f32}, Case{1, 64, 2, 16, true, 0.0f, DType::f32},
        Case{1, 65, 1, 32, true, 0.0f, DType::f32}, Case{1, 65, 1, 32, false, 0.25f, DType::f32},
        Case{2, 130, 2, 24, true, 0.1f, DType::f32}, Case{1, 129, 2, 64, true, 0.0f, DType::f32},
        Case{1, 70, 1, 128, false, 0.0f, DType::f32}, Case{2, 7, 3, 5, true, 0.0f, DType::bf16},
        Case{1, 130, 2, 64, true, 0.1f, DType::bf16}, Case{1, 65, 1, 32, false, 0.0f, DType::bf16},
        Case{1, 90, 2, 48, true, 0.1f, DType::bf16}, Case{1, 101, 2, 128, true, 0.1f, DType::bf16},
        Case{2, 35, 2, 256, true, 0.1f, DType::f32}, Case{1, 50, 2, 136, false, 0.1f, DType::bf16},
        Case{2, 70, 6, 20, true, 0.1f, DType::f32, 2},
        Case{1, 35, 4, 64, false, 0.0f, DType::f32, 1},
        Case{1, 130, 4, 64, true, 0.1f, DType::bf16, 2},
        Case{2, 20, 6, 32, true, 0.0f, DType::bf16, 3},
        Case{1, 66, 3, 128, true, 0.1f, DType::bf16, 1},
        Case{1, 20, 4, 200, true, 0.1f, DType::f32, 2}),
    [](const auto& instance) {
      const Case& c = instance.param;
      const std::string groups =
          c.kv_heads == c.heads ? std::string() : fmt::format("of{}", c.kv_heads);
      return fmt::format("{}x{}x{}{}x{}{}{}_{}", c.batch, c.seq, c.heads, groups, c.d,
                         c.causal ? "_causal" : "", c.dropout > 0 ? "_dropout" : "",
                         to_string(c.dtype));
    });

TEST(AttentionReferenceTest, BackwardMatchesFiniteDifferences) {
  const Case c{1, 5, 2, 3, true, 0.3f, DType::f32};
  const AttentionReference reference = reference_of(c, options_of(c));
  const auto qkv = to_doubles(random_tensor({1, 5, 6, 3}, DType::f32, 1).tensor);
  const auto dout = to_doubles(random_tensor({1, 5, 2, 3}, DType::f32, 2).tensor);
  const auto numeric = test::finite_difference(
      [&](std::span<const double> x) {
        return test::dot(reference.forward({x.begin(), x.end()}).out, dout);
      },
      qkv);
  test::expect_close(reference.backward(qkv, dout), numeric, 1e-8, "dqkv");
}

TEST(AttentionProperties, HiddenKeyChangesNothing) {
  const Case c{1, 100, 2, 16, true, 0.0f, DType::f32};
  const AttentionOptions options = options_of(c);
  TestTensor qkv = random_tensor({1, c.seq, 3 * c.heads, c.d}, c.dtype, 1);
  TestTensor before({1, c.seq, c.heads, c.d}, c.dtype), after({1, c.seq, c.heads, c.d}, c.dtype);
  TestTensor lse({1, c.heads, c.seq}, DType::f32);
  attention_forward(qkv.tensor, options, before.tensor, lse.tensor);
  const int64_t changed = 70;  // hidden from every earlier query
  for (float& x :
       qkv.tensor.view({c.seq, 3 * c.heads * c.d}).slice(changed, changed + 1).span<float>()) {
    x = 1000.0f - x;
  }
  attention_forward(qkv.tensor, options, after.tensor, lse.tensor);
  test::expect_same_bits(before.tensor.view({c.seq, c.heads * c.d}).slice(0, changed),
                         after.tensor.view({c.seq, c.heads * c.d}).slice(0, changed), "out");
}

TEST(AttentionProperties, DecodeMatchesLastRowOfForward) {
  for (const Case& c :
       {Case{2, 37, 3, 20, true, 0.0f, DType::f32}, Case{1, 300, 2, 64, true, 0.0f, DType::bf16},
        Case{1, 70, 2, 128, true, 0.0f, DType::f32}, Case{1, 70, 1, 200, true, 0.0f, DType::bf16},
        Case{2, 37, 6, 64, true, 0.0f, DType::bf16, 2}}) {
    const AttentionOptions options = options_of(c);
    const TestTensor qkv = random_tensor({c.batch, c.seq, c.heads_of_qkv(), c.d}, c.dtype, 1);
    TestTensor out({c.batch, c.seq, c.heads, c.d}, c.dtype),
        lse({c.batch, c.heads, c.seq}, DType::f32);
    attention_forward(qkv.tensor, options, out.tensor, lse.tensor);

    const int64_t capacity = c.seq + 5;
    TestTensor keys({c.batch, c.kv_heads, capacity, c.d}, c.dtype),
        values(keys.tensor.shape(), c.dtype);
    TestTensor q({c.batch, c.heads, c.d}, c.dtype), last(q.tensor.shape(), c.dtype);
    const auto row_of = [&](const Tensor& tensor, int64_t row) {
      return tensor.view({tensor.numel() / c.d, c.d}).slice(row, row + 1);
    };
    const std::vector<double> outs = to_doubles(out.tensor);
    std::vector<double> expected;
    for (int64_t bh = 0; bh < c.batch * c.heads; ++bh) {
      const int64_t b = bh / c.heads, h = bh % c.heads;
      const int64_t group = h / (c.heads / c.kv_heads);
      const auto in_qkv = [&](int64_t t, int64_t head) {
        return row_of(qkv.tensor, (b * c.seq + t) * c.heads_of_qkv() + head);
      };
      for (int64_t t = 0; t < c.seq; ++t) {
        const int64_t cached = (b * c.kv_heads + group) * capacity + t;
        copy(in_qkv(t, c.heads + group), row_of(keys.tensor, cached));
        copy(in_qkv(t, c.heads + c.kv_heads + group), row_of(values.tensor, cached));
      }
      copy(in_qkv(c.seq - 1, h), row_of(q.tensor, bh));
      const auto first = outs.begin() + (((b + 1) * c.seq - 1) * c.heads + h) * c.d;
      expected.insert(expected.end(), first, first + c.d);
    }
    AttentionOptions newest;
    newest.scale = options.scale;
    attention_decode(q.tensor, keys.tensor, values.tensor, c.seq, newest, last.tensor);
    test::expect_close(last.tensor, expected, tolerance(c), "last row");
  }
}

TEST(AttentionDropout, ScaleIsInverseOfProbabilityKept) {
  EXPECT_EQ(weight_dropout({}).threshold, 0u);
  EXPECT_EQ(weight_dropout({}).scale, 1.0f);
  for (const auto& [probability, threshold] :
       {std::pair(0.002f, 1u), std::pair(0.1f, 26u), std::pair(0.25f, 64u), std::pair(0.3f, 77u),
        std::pair(0.5f, 128u), std::pair(0.9f, 230u), std::pair(0.998f, 255u)}) {
    const WeightDropout dropout = weight_dropout({probability});
    EXPECT_EQ(dropout.threshold, threshold) << probability;
    EXPECT_EQ(dropout.scale, static_cast<float>(256.0 / (256.0 - threshold))) << probability;
  }
}

TEST(AttentionDropout, RefusesProbabilitiesThatRoundToNoneOrAll) {
  const Case c{1, 4, 1, 8, false, 0.0f, DType::f32};
  const TestTensor qkv = random_tensor({1, 4, 3, 8}, c.dtype, 1);
  TestTensor out({1, 4, 1, 8}, c.dtype), lse({1, 1, 4}, DType::f32);
  AttentionOptions options = options_of(c);
  for (const float probability : {0.001f, 0.999f}) {
    options.dropout.probability = probability;
    test::expect_error([&] { attention_forward(qkv.tensor, options, out.tensor, lse.tensor); },
                       {"attention_forward: dropout.probability is 0.", "multiple of 1/256",
                        "from 0.002 to 0.998"});
  }
  options.dropout.probability = 1.0f;
  test::expect_error([&] { attention_forward(qkv.tensor, options, out.tensor, lse.tensor); },
                     {"dropout.probability must be in [0, 1), but is 1"});
}

TEST(AttentionErrors, RefusesWrongShapes) {
  TestTensor qkv({1, 4, 6, 8}, DType::f32), out({1, 4, 8, 2}, DType::f32),
      lse({1, 2, 4}, DType::f32);
  const auto refuse = [&](int64_t kv_heads, std::initializer_list<const char*> parts) {
    AttentionOptions options;
    options.kv_heads = kv_heads;
    test::expect_error([&] { attention_forward(qkv.tensor, options, out.tensor, lse.tensor); },
                       parts);
  };
  refuse(0, {"out must have shape (1, 4, 2, 8)"});
  refuse(1, {"out must have shape (1, 4, 4, 8)"});
  refuse(4, {"qkv fp32 (1, 4, 6, 8)", "4 key-value heads"});
  const TestTensor five({1, 4, 5, 8}, DType::f32);
  test::expect_error([&] { attention_forward(five.tensor, {}, out.tensor, lse.tensor); },
                     {"without kv_heads", "(1, 4, 5, 8)"});
}

}  // namespace
}  // namespace tessera
