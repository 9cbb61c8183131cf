#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/ops/attention.h"
#include "tests/support/attention/attention_reference.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::AttentionReference;
using test::random_tensor;
using test::TestTensor;
using test::to_doubles;
using Lengths = std::vector<int32_t>;

struct CrossCase {
  std::string name;
  Lengths queries, keys;  // of each document
  int64_t heads, kv_heads, d;
  float dropout;
  DType dtype;
};

TestTensor int_tensor(const Lengths& values) {
  TestTensor tensor({std::ssize(values)}, DType::i32);
  std::ranges::copy(values, tensor.tensor.span<int32_t>().begin());
  return tensor;
}

Lengths cumulative(const Lengths& lengths) {
  Lengths ends = {0};
  for (const int32_t length : lengths) ends.push_back(ends.back() + length);
  return ends;
}

/// The places of the rows in a padded batch with a row per document.
Lengths places(const Lengths& lengths, int32_t seq_length) {
  Lengths rows;
  for (int32_t b = 0; b < std::ssize(lengths); ++b) {
    for (int32_t t = 0; t < lengths[static_cast<size_t>(b)]; ++t) {
      rows.push_back(b * seq_length + t);
    }
  }
  return rows;
}

int32_t document_of(const Lengths& ends, int64_t row) {
  int32_t i = 0;
  while (ends[static_cast<size_t>(i) + 1] <= row) ++i;
  return i;
}

/// A cross-attention, its options, and the same as self-attention of N + Ns rows: the queries, then
/// the keys, where a query sees the keys of its document and no other row.
class CrossAttention : public testing::TestWithParam<CrossCase> {
 protected:
  CrossAttention() {
    options.scale = 1.0f / std::sqrt(static_cast<float>(c.d));
    options.mask.documents = documents.tensor;
    options.padded_rows = {rows.tensor, kSeqLength};
    options.memory = {kv.tensor, key_documents.tensor, {key_rows.tensor, kSourceLength}};
    options.dropout.probability = c.dropout;
    options.dropout.key = {7, RandomPurpose::attention_dropout, 3, 11};
    options.dropout.first_row = 5;
    options.first_head = 2;
    options.total_heads = c.heads + 3;
    options.kv_heads = c.kv_heads;
    reference.hidden = [this](int64_t, int64_t, int64_t t, int64_t s) {
      return t >= n || s < n || document_of(ends, t) != document_of(key_ends, s - n);
    };
    reference.factor = [this](int64_t, int64_t h, int64_t t, int64_t s) {
      if (t >= n || s < n || !options.dropout.active()) return 1.0;
      const int64_t place = rows.tensor.data<int32_t>()[t];
      const int64_t key_place = key_rows.tensor.data<int32_t>()[s - n];
      const int64_t head =
          (options.dropout.first_row + place / kSeqLength) * options.total_heads + 2 + h;
      const int64_t at =
          (head * kSeqLength + place % kSeqLength) * kSourceLength + key_place % kSourceLength;
      const WeightDropout dropout = weight_dropout(options.dropout);
      const uint8_t byte = random_byte(options.dropout.key, static_cast<uint64_t>(at));
      return byte < dropout.threshold ? 0.0 : double{dropout.scale};
    };
  }

  /// The rows of the self-attention: a query has no key, and a key no query.
  std::vector<double> joined(const std::vector<double>& of_queries,
                             const std::vector<double>& of_keys) const {
    std::vector<double> all;
    const auto take = [&](const std::vector<double>& from, int64_t row, int64_t width, bool real) {
      for (int64_t i = 0; i < width; ++i) {
        all.push_back(real ? from[static_cast<size_t>(row * width + i)] : 0.0);
      }
    };
    for (int64_t row = 0; row < n + ns; ++row) {
      take(of_queries, row, c.heads * c.d, row < n);
      take(of_keys, row - n, 2 * c.kv_heads * c.d, row >= n);
    }
    return all;
  }

  /// Splits the gradient of joined().
  std::pair<std::vector<double>, std::vector<double>> split(const std::vector<double>& all) const {
    std::vector<double> of_queries, of_keys;
    const int64_t width = (c.heads + 2 * c.kv_heads) * c.d, columns = c.heads * c.d;
    for (int64_t i = 0; i < (n + ns) * width; ++i) {
      const bool is_query = i % width < columns;
      if (i / width < n && is_query) of_queries.push_back(all[static_cast<size_t>(i)]);
      if (i / width >= n && !is_query) of_keys.push_back(all[static_cast<size_t>(i)]);
    }
    return {of_queries, of_keys};
  }

  double tolerance() const {
    return test::sum_tolerance(c.dtype, c.d) * 4 + test::sum_tolerance(c.dtype, ns);
  }
  void forward() { attention_forward(q.tensor, options, out.tensor, lse.tensor); }
  void backward() {
    attention_backward(dout.tensor, q.tensor, out.tensor, lse.tensor, options, dq.tensor, {},
                       dkv.tensor);
  }

  static constexpr int32_t kSeqLength = 150, kSourceLength = 170;
  const CrossCase c = GetParam();
  const Lengths ends = cumulative(c.queries), key_ends = cumulative(c.keys);
  const int64_t n = ends.back(), ns = key_ends.back();
  TestTensor documents = int_tensor(ends), key_documents = int_tensor(key_ends);
  TestTensor rows = int_tensor(places(c.queries, kSeqLength)),
             key_rows = int_tensor(places(c.keys, kSourceLength));
  const TestTensor q = random_tensor({1, n, c.heads, c.d}, c.dtype, 1),
                   kv = random_tensor({1, ns, 2 * c.kv_heads, c.d}, c.dtype, 2),
                   dout = random_tensor({1, n, c.heads, c.d}, c.dtype, 3);
  TestTensor out{{1, n, c.heads, c.d}, c.dtype}, lse{{1, c.heads, n}, DType::f32};
  TestTensor dq{{1, n, c.heads, c.d}, c.dtype}, dkv{{1, ns, 2 * c.kv_heads, c.d}, c.dtype};
  AttentionOptions options;
  AttentionReference reference{1,  n + ns, c.heads, c.d,       1.0 / std::sqrt(double(c.d)),
                               {}, {},     {},      c.kv_heads};
};

TEST_P(CrossAttention, ForwardMatchesReference) {
  forward();
  std::vector<double> expected =
      reference.forward(joined(to_doubles(q.tensor), to_doubles(kv.tensor))).out;
  expected.resize(static_cast<size_t>(n * c.heads * c.d));
  test::expect_close(out.tensor, expected, tolerance(), "out");
}

TEST_P(CrossAttention, BackwardMatchesReference) {
  forward();
  backward();
  std::vector<double> douts = to_doubles(dout.tensor);
  douts.resize(static_cast<size_t>((n + ns) * c.heads * c.d));
  const auto [expected_q, expected_kv] =
      split(reference.backward(joined(to_doubles(q.tensor), to_doubles(kv.tensor)), douts));
  test::expect_close(dq.tensor, expected_q, 8 * tolerance(), "dq");
  test::expect_close(dkv.tensor, expected_kv, 8 * tolerance(), "dkv");
}

TEST_P(CrossAttention, WeightsMatchReference) {
  forward();
  TestTensor weights({1, c.heads, n, ns}, DType::f32);
  attention_weights(q.tensor, lse.tensor, options, weights.tensor);
  const std::vector<double> all =
      reference.all_weights(joined(to_doubles(q.tensor), to_doubles(kv.tensor)));
  std::vector<double> expected;
  for (int64_t h = 0; h < c.heads; ++h) {
    for (int64_t t = 0; t < n; ++t) {
      const auto row = all.begin() + (h * (n + ns) + t) * (n + ns) + n;
      expected.insert(expected.end(), row, row + ns);
    }
  }
  test::expect_close(weights.tensor, expected, tolerance(), "weights");
}

// Without dropout, it does not matter where rows are in a padded batch.
TEST_P(CrossAttention, PlacesAreOptional) {
  options.dropout.probability = 0.0f;
  forward();
  backward();
  const TestTensor before_out = test::copy_of(out.tensor), before = test::copy_of(dkv.tensor);
  options.padded_rows = options.memory.padded_rows = {};
  forward();
  backward();
  test::expect_same_bits(out.tensor, before_out.tensor, "out");
  test::expect_same_bits(dkv.tensor, before.tensor, "dkv");
}

TEST_P(CrossAttention, BitsDoNotDependOnThreads) {
  if (test::on_gpu()) GTEST_SKIP() << "a GPU's blocks do not depend on the host's threads";
  const auto run = [&](int threads) {
    const test::ThreadCount count(threads);
    forward();
    backward();
    return std::pair(test::copy_of(dq.tensor), test::copy_of(dkv.tensor));
  };
  const auto one = run(1), three = run(3);
  test::expect_same_bits(one.first.tensor, three.first.tensor, "dq");
  test::expect_same_bits(one.second.tensor, three.second.tensor, "dkv");
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, CrossAttention,
    testing::Values(CrossCase{"one", {1}, {1}, 1, 1, 1, 0.0f, DType::f32},
                    CrossCase{"short_texts", {3, 1, 5, 2}, {2, 6, 1, 4}, 3, 3, 5, 0.0f, DType::f32},
                    CrossCase{"empty_texts", {0, 3, 4, 0}, {2, 0, 3, 1}, 2, 2, 8, 0.1f, DType::f32},
                    CrossCase{"no_sources", {3, 4}, {0, 0}, 2, 1, 8, 0.0f, DType::f32},
                    CrossCase{"no_targets", {0, 0}, {3, 70}, 2, 2, 16, 0.0f, DType::bf16},
                    CrossCase{"long", {130, 20}, {67, 129}, 2, 2, 32, 0.25f, DType::f32},
                    CrossCase{"groups", {66, 5}, {3, 150}, 6, 2, 20, 0.1f, DType::f32},
                    CrossCase{"groups_bf16", {20, 70}, {90, 40}, 4, 2, 64, 0.1f, DType::bf16},
                    CrossCase{"wide_bf16", {35}, {70}, 2, 2, 128, 0.1f, DType::bf16},
                    CrossCase{"wide", {35, 2}, {7, 33}, 2, 1, 200, 0.1f, DType::f32}),
    [](const auto& instance) { return instance.param.name; });

TEST(CrossAttentionErrors, RefusesWhatDoesNotFit) {
  TestTensor q({1, 4, 2, 8}, DType::f32), out({1, 4, 2, 8}, DType::f32), lse({1, 2, 4}, DType::f32);
  TestTensor kv({1, 3, 4, 8}, DType::f32);
  TestTensor documents = int_tensor({0, 4}), key_documents = int_tensor({0, 3});
  TestTensor rows = int_tensor({0, 1, 2, 3}), key_rows = int_tensor({0, 1, 2});
  AttentionOptions options;
  options.mask.documents = documents.tensor;
  options.padded_rows = {rows.tensor, 4};
  options.total_heads = 2;
  options.memory = {kv.tensor, key_documents.tensor, {key_rows.tensor, 3}};
  attention_forward(q.tensor, options, out.tensor, lse.tensor);
  const auto refuse = [&](const auto& change, std::initializer_list<const char*> parts) {
    AttentionOptions wrong = options;
    change(wrong);
    test::expect_error([&] { attention_forward(q.tensor, wrong, out.tensor, lse.tensor); }, parts);
  };
  refuse([](AttentionOptions& o) { o.mask.causal = true; },
         {"cross-attention", "supports only documents", "causal, documents"});
  const TestTensor two({2, 4, 2, 8}, DType::f32);
  test::expect_error([&] { attention_forward(two.tensor, options, out.tensor, lse.tensor); },
                     {"one sequence, B = 1", "(2, 4, 2, 8)"});
  const TestTensor bias({2, 7}, DType::f32);
  refuse([&](AttentionOptions& o) { o.position_bias = bias.tensor; }, {"position_bias"});
  const TestTensor short_ends = int_tensor({0, 2}), other = int_tensor({0, 1, 3});
  if (!test::on_gpu()) {  // the host does not read the GPU's memory
    refuse([&](AttentionOptions& o) { o.memory.documents = short_ends.tensor; },
           {"memory.documents must begin with 0 and end with the 3 rows, but goes from 0 to 2"});
  }
  refuse([&](AttentionOptions& o) { o.memory.documents = other.tensor; }, {"memory.documents"});
  const TestTensor odd({1, 3, 3, 8}, DType::f32);
  refuse([&](AttentionOptions& o) { o.memory.key_values = odd.tensor; },
         {"memory.key_values must have shape (1, Ns, 2 Kl, D)", "(1, 3, 3, 8)"});
  TestTensor dq({1, 4, 2, 8}, DType::f32);
  test::expect_error(
      [&] { attention_backward(out.tensor, q.tensor, out.tensor, lse.tensor, options, dq.tensor); },
      {"dkey_values", "memory"});
}

}  // namespace
}  // namespace tessera
