// Queries that are some of the tokens of documents, as context ranks have them: attention to all
// keys of the documents equals attention of all tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops/attention.h"
#include "core/ops/columns.h"
#include "core/ops/elementwise.h"
#include "core/ops/rows.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::from_ints;
using test::random_tensor;
using test::TestTensor;
using Ints = std::vector<int32_t>;

struct ContextCase {
  std::string name;
  Ints lengths;  // of the documents
  AttentionMask mask;
  int64_t heads, kv_heads;
  float dropout = 0.0f;
  bool hides_keys = false, plane = false, bias = false;
  DType dtype = DType::f32;
  int64_t d = 16;
};

/// A mask without tensors.
AttentionMask arithmetic(bool causal, int64_t window = 0, int64_t dilation = 1, int64_t prefix = 0,
                         int64_t global_tokens = 0) {
  AttentionMask mask;
  mask.causal = causal;
  mask.window = window;
  mask.dilation = dilation;
  mask.prefix = prefix;
  mask.global_tokens = global_tokens;
  return mask;
}

/// The rows of each context rank: chunks of `chunk` rows in turns, there and back.
std::vector<Ints> rows_of_ranks(int32_t rows, int32_t ranks, int32_t chunk) {
  std::vector<Ints> result(static_cast<size_t>(ranks));
  for (int32_t row = 0; row < rows; ++row) {
    const int32_t turn = row / chunk % (2 * ranks);
    result[static_cast<size_t>(turn < ranks ? turn : 2 * ranks - 1 - turn)].push_back(row);
  }
  return result;
}

class ContextAttention : public testing::TestWithParam<ContextCase> {
 protected:
  ContextAttention() {
    Ints all_ends = {0}, all_places;
    for (size_t i = 0; i < c.lengths.size(); ++i) {
      for (int32_t t = 0; t < c.lengths[i]; ++t) {
        positions.push_back(t);
        all_places.push_back(static_cast<int32_t>(i) * kSeqLength + t);
      }
      all_ends.push_back(all_ends.back() + c.lengths[i]);
    }
    ends = all_ends;
    documents = from_ints(ends, {std::ssize(ends)});
    places = from_ints(all_places, {n()});
    qkv = random_tensor({1, n(), c.heads + 2 * c.kv_heads, c.d}, c.dtype, 1);
    dout = random_tensor({1, n(), c.heads, c.d}, c.dtype, 2);
    options.scale = 1.0f / std::sqrt(static_cast<float>(c.d));
    options.mask = c.mask;
    options.mask.documents = documents.tensor;
    options.padded_rows = {places.tensor, kSeqLength};
    options.dropout.probability = c.dropout;
    options.dropout.key = {7, RandomPurpose::attention_dropout, 3, 11};
    options.dropout.first_row = 5;
    options.first_head = 1;
    options.total_heads = c.heads + 2;
    options.kv_heads = c.kv_heads;
    if (c.hides_keys) {
      hidden_keys = TestTensor({1, n()}, DType::u8);
      for (int64_t i = 0; i < n(); ++i) hidden_keys.tensor.data<uint8_t>()[i] = i % 7 == 3;
      options.mask.hidden_keys = hidden_keys.tensor;
    }
    if (c.plane) {
      plane = random_tensor({options.total_heads, kSeqLength, kSeqLength}, DType::f32, 4);
      hidden = TestTensor({1, kSeqLength, kSeqLength}, DType::u8);
      for (int64_t i = 0; i < plane.tensor.numel(); ++i) {
        const bool is_own_key = i / kSeqLength % kSeqLength == i % kSeqLength;
        if (i < hidden.tensor.numel()) {
          hidden.tensor.data<uint8_t>()[i] = !is_own_key && i % 11 == 3;
        }
        if (!is_own_key && i % 7 == 2) plane.tensor.data<float>()[i] = -HUGE_VALF;
      }
      options.mask.additive = plane.tensor;
      options.mask.hidden = hidden.tensor;
    }
    if (c.bias) {
      bias = random_tensor({c.heads, 2 * kSeqLength - 1}, DType::f32, 5);
      options.position_bias = bias.tensor;
    }
  }

  int64_t n() const { return ends.back(); }
  int64_t columns() const { return c.heads * c.d; }
  int64_t kv_columns() const { return 2 * c.kv_heads * c.d; }

  struct Result {
    TestTensor out, lse, weights, dq, dkv, dbias;
  };

  /// Of all tokens.
  Result whole() const {
    Result r = make(n());
    attention_forward(qkv.tensor, options, r.out.tensor, r.lse.tensor);
    attention_weights(qkv.tensor, r.lse.tensor, options, r.weights.tensor);
    const TestTensor dqkv(qkv.tensor.shape(), c.dtype);
    attention_backward(dout.tensor, qkv.tensor, r.out.tensor, r.lse.tensor, options, dqkv.tensor,
                       r.dbias.tensor);
    const Tensor from = dqkv.tensor.view({n(), columns() + kv_columns()});
    copy_columns(from, 0, r.dq.tensor.view({n(), columns()}), 0, columns());
    copy_columns(from, columns(), r.dkv.tensor.view({n(), kv_columns()}), 0, kv_columns());
    return r;
  }

  /// Of the tokens in `rows`.
  Result of(const Ints& rows) const {
    const auto count = std::ssize(rows);
    Ints own_ends = {0}, own_positions;
    for (size_t i = 1; i < ends.size(); ++i) {
      own_ends.push_back(
          static_cast<int32_t>(std::ranges::lower_bound(rows, ends[i]) - rows.begin()));
    }
    for (const int32_t row : rows) own_positions.push_back(positions[static_cast<size_t>(row)]);
    const TestTensor own_documents = from_ints(own_ends, {std::ssize(own_ends)});
    const TestTensor position = from_ints(own_positions, {count}), index = from_ints(rows, {count});
    const TestTensor own_places({count}, DType::i32);
    gather_ints(places.tensor, index.tensor, own_places.tensor);
    const TestTensor kv({1, n(), 2 * c.kv_heads, c.d}, c.dtype);
    const Tensor from = qkv.tensor.view({n(), columns() + kv_columns()});
    copy_columns(from, columns(), kv.tensor.view({n(), kv_columns()}), 0, kv_columns());
    const TestTensor all_q({n(), columns()}, c.dtype), q({1, count, c.heads, c.d}, c.dtype);
    copy_columns(from, 0, all_q.tensor, 0, columns());
    gather_rows(all_q.tensor, index.tensor, q.tensor.view({count, columns()}));
    const TestTensor own_dout({1, count, c.heads, c.d}, c.dtype);
    gather_rows(dout.tensor.view({n(), columns()}), index.tensor,
                own_dout.tensor.view({count, columns()}));
    AttentionOptions own = options;
    own.mask.documents = own_documents.tensor;
    own.padded_rows.index = own_places.tensor;
    own.memory = {kv.tensor, documents.tensor, options.padded_rows, position.tensor};
    Result r = make(count);
    attention_forward(q.tensor, own, r.out.tensor, r.lse.tensor);
    attention_weights(q.tensor, r.lse.tensor, own, r.weights.tensor);
    attention_backward(own_dout.tensor, q.tensor, r.out.tensor, r.lse.tensor, own, r.dq.tensor,
                       r.dbias.tensor, r.dkv.tensor);
    return r;
  }

  Result make(int64_t rows) const {
    Result r{{{1, rows, c.heads, c.d}, c.dtype},       {{1, c.heads, rows}, DType::f32},
             {{1, c.heads, rows, n()}, DType::f32},    {{1, rows, c.heads, c.d}, c.dtype},
             {{1, n(), 2 * c.kv_heads, c.d}, c.dtype}, {}};
    if (c.bias) {
      r.dbias = TestTensor({c.heads, 2 * kSeqLength - 1}, DType::f32);
      fill(r.dbias.tensor, 0.0);
    }
    return r;
  }

  /// Expects row m of `own`, (M, width) in `heads` planes, to be row rows[m] of `all`: with the
  /// same bits on a CPU. A GPU's tiles start at the first query, so its sums have another order.
  void expect_rows(const Tensor& own, const Tensor& all, const Ints& rows, int64_t planes,
                   const char* what) const {
    const int64_t count = std::ssize(rows), width = all.numel() / (planes * n());
    const TestTensor expected({planes * count, width}, own.dtype());
    for (int64_t p = 0; p < planes; ++p) {
      const Tensor from = all.view({planes * n(), width}).slice(p * n(), (p + 1) * n());
      gather_rows(from, from_ints(rows, {count}).tensor,
                  expected.tensor.slice(p * count, (p + 1) * count));
    }
    const Tensor actual = own.view({planes * count, width});
    if (test::on_gpu()) {
      return test::expect_close(actual, test::to_doubles(expected.tensor), tolerance(), what);
    }
    test::expect_same_bits(actual, expected.tensor, what);
  }
  double tolerance() const { return 16 * test::sum_tolerance(c.dtype, n()); }

  static constexpr int32_t kSeqLength = 330;
  const ContextCase c = GetParam();
  Ints ends, positions;
  TestTensor documents, places, qkv, dout, hidden_keys, hidden, plane, bias;
  AttentionOptions options;
};

TEST_P(ContextAttention, EqualsAttentionOfAllTokens) {
  const Result all = whole();
  for (const auto& [ranks, chunk] : {std::pair{1, 1}, {2, 64}, {3, 17}, {4, 1}}) {
    SCOPED_TRACE(fmt::format("{} ranks, chunks of {}", ranks, chunk));
    std::vector<double> dkv(static_cast<size_t>(all.dkv.tensor.numel()));
    std::vector<double> dbias(c.bias ? static_cast<size_t>(all.dbias.tensor.numel()) : 0);
    const auto add = [](const Tensor& part, std::vector<double>& sum) {
      const std::vector<double> values = test::to_doubles(part);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    };
    for (const Ints& rows : rows_of_ranks(static_cast<int32_t>(n()), ranks, chunk)) {
      const Result own = of(rows);
      expect_rows(own.out.tensor, all.out.tensor, rows, 1, "out");
      expect_rows(own.lse.tensor, all.lse.tensor, rows, c.heads, "log_sum_exp");
      expect_rows(own.weights.tensor, all.weights.tensor, rows, c.heads, "weights");
      expect_rows(own.dq.tensor, all.dq.tensor, rows, 1, "dq");
      add(own.dkv.tensor, dkv);
      if (c.bias) add(own.dbias.tensor, dbias);
    }
    test::expect_close(dkv, test::to_doubles(all.dkv.tensor), tolerance(), "dkv");
    if (c.bias) {
      test::expect_close(dbias, test::to_doubles(all.dbias.tensor), tolerance(), "dbias");
    }
  }
}

const auto kFull = arithmetic(false), kCausal = arithmetic(true);
INSTANTIATE_TEST_SUITE_P(
    Masks, ContextAttention,
    testing::Values(
        ContextCase{"one", {1}, kCausal, 1, 1}, ContextCase{"causal", {200}, kCausal, 2, 2, 0.1f},
        ContextCase{"packed", {70, 1, 130, 3}, kCausal, 4, 2, 0.2f},
        ContextCase{"bidirectional", {90, 20}, kFull, 2, 2, 0.1f, true},
        ContextCase{"window", {150, 60}, arithmetic(true, 40), 2, 1},
        ContextCase{"symmetric_window", {150}, arithmetic(false, 9), 2, 2, 0.1f},
        ContextCase{"dilated", {150, 40}, arithmetic(false, 6, 5), 2, 2},
        ContextCase{"prefix", {140, 30}, arithmetic(true, 0, 1, 50), 2, 2, 0.1f},
        ContextCase{"global", {160}, arithmetic(false, 8, 3, 0, 4), 2, 2, 0.1f},
        ContextCase{"sinks", {130, 50}, arithmetic(true, 16, 1, 0, 2), 2, 1},
        ContextCase{"plane", {80, 40}, kCausal, 2, 2, 0.1f, false, true},
        ContextCase{"bias", {120, 45}, kFull, 2, 2, 0.0f, false, false, true},
        ContextCase{"all", {140, 31}, arithmetic(true, 30, 2, 20, 3), 4, 2, 0.1f, true, true, true},
        ContextCase{"bf16", {180, 30}, kCausal, 4, 2, 0.1f, false, false, false, DType::bf16, 64},
        ContextCase{"bf16_window",
                    {180, 30},
                    arithmetic(true, 70),
                    2,
                    2,
                    0.0f,
                    true,
                    false,
                    false,
                    DType::bf16,
                    32}),
    [](const auto& instance) { return instance.param.name; });

// The rows of one context rank with a narrow window. Keys that are far from all of them are NaN: a
// tile that no query sees must not be computed, also where a tile of queries has two runs.
TEST(ContextAttentionTiles, SkipsTilesThatNoQuerySees) {
  constexpr int32_t kRows = 1200, kRun = 240, kWindow = 9, kTile = 64;
  const Ints rows = rows_of_ranks(kRows, 2, kRun / 2)[1];
  const int64_t count = std::ssize(rows), d = 16;
  const TestTensor kv = random_tensor({1, kRows, 2, d}, DType::f32, 1);
  std::vector<bool> is_far(kRows, true);
  for (const int32_t row : rows) {
    const int32_t begin = std::max(row - kWindow - kTile, 0);
    for (int32_t s = begin; s < std::min(row + kWindow + kTile, kRows); ++s) is_far[s] = false;
  }
  ASSERT_TRUE(is_far[2 * kRun]) << "in the middle of a gap between two runs";
  for (int32_t s = 0; s < kRows; ++s) {
    if (is_far[s]) fill(kv.tensor.view({kRows, 2 * d}).slice(s, s + 1), std::nan(""));
  }
  const TestTensor q = random_tensor({1, count, 1, d}, DType::f32, 2);
  const TestTensor out({1, count, 1, d}, DType::f32), lse({1, 1, count}, DType::f32);
  const TestTensor dq({1, count, 1, d}, DType::f32), dkv({1, kRows, 2, d}, DType::f32);
  const TestTensor documents = from_ints(Ints{0, static_cast<int32_t>(count)}, {2});
  const TestTensor keys = from_ints(Ints{0, kRows}, {2}), positions = from_ints(rows, {count});
  AttentionOptions options;
  options.mask = arithmetic(false, kWindow);
  options.mask.documents = documents.tensor;
  options.memory = {kv.tensor, keys.tensor, {}, positions.tensor};
  attention_forward(q.tensor, options, out.tensor, lse.tensor);
  attention_backward(q.tensor, q.tensor, out.tensor, lse.tensor, options, dq.tensor, {},
                     dkv.tensor);
  const auto is_finite = [](double x) { return std::isfinite(x); };
  for (const TestTensor* result : {&out, &dq, &dkv}) {
    EXPECT_TRUE(std::ranges::all_of(test::to_doubles(result->tensor), is_finite));
  }
}

TEST(ContextAttentionErrors, RefusesPositionsThatAreNotOfTheDocument) {
  if (test::on_gpu()) GTEST_SKIP() << "the host does not read the GPU's memory";
  const TestTensor q = random_tensor({1, 3, 2, 8}, DType::f32, 1),
                   kv = random_tensor({1, 4, 4, 8}, DType::f32, 2);
  const TestTensor out({1, 3, 2, 8}, DType::f32), lse({1, 2, 3}, DType::f32);
  const TestTensor documents = from_ints(Ints{0, 3}, {2}), keys = from_ints(Ints{0, 4}, {2});
  AttentionOptions options;
  options.mask = kCausal;
  options.mask.documents = documents.tensor;
  options.total_heads = 2;
  for (const auto& [positions, is_right] : {std::pair{Ints{0, 2, 3}, true},
                                            {{0, 0, 3}, false},
                                            {{-1, 2, 3}, false},
                                            {{0, 2, 4}, false}}) {
    const TestTensor position = from_ints(positions, {3});
    options.memory = {kv.tensor, keys.tensor, {}, position.tensor};
    const auto run = [&] { attention_forward(q.tensor, options, out.tensor, lse.tensor); };
    if (is_right) {
      run();
    } else {
      test::expect_error(run, {"memory.positions", "4 keys"});
    }
  }
}

}  // namespace
}  // namespace tessera
