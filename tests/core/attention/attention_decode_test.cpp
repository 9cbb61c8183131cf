#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/attention.h"
#include "core/ops/elementwise.h"
#include "tests/support/attention/attention_masks.h"
#include "tests/support/attention/attention_reference.h"
#include "tests/support/shifted.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr int64_t kChunk = 64;  // keys per block on a GPU

struct Sizes {
  int64_t length, d, window = 0, batch = 2, heads = 3, kv_heads = heads;
  int64_t dilation = 1, global_tokens = 0;
  AttentionMask planes = {};  ///< `hidden` and `additive` by position
  int64_t first_head = 0, total_heads = heads;

  AttentionMask mask() const {
    AttentionMask mask = planes;
    mask.causal = true;
    mask.window = window;
    mask.dilation = dilation;
    mask.global_tokens = global_tokens;
    return mask;
  }
  AttentionOptions options(float scale, const Tensor& position_bias) const {
    AttentionOptions options;
    options.scale = scale;
    options.mask = mask();
    options.position_bias = position_bias;
    options.first_head = first_head;
    options.total_heads = total_heads;
    return options;
  }
  /// Whether the newest position sees key s of the cache in this head.
  bool sees(int64_t head, int64_t s) const {
    const int64_t h = first_head + head, t = length - 1;
    return s < length && !hides(mask(), length, total_heads, 0, h, t, s) &&
           !std::isinf(additive(head, s));
  }
  double additive(int64_t head, int64_t s) const {
    return additive_of(mask(), length, total_heads, 0, first_head + head, length - 1, s);
  }
  int64_t capacity() const { return length + 3; }
};

/// Queries, and caches whose rows beyond the visible ones are NaN: they must not be read.
struct Inputs {
  Sizes sizes;
  float scale;
  TestTensor q, keys, values;
  Tensor position_bias = {};

  /// The standard deviation of scores is about `score_size`.
  Inputs(const Sizes& its_sizes, DType dtype, float score_size = 1.0f)
      : sizes(its_sizes),
        scale(score_size / std::sqrt(static_cast<float>(sizes.d))),
        q(random_tensor({sizes.batch, sizes.heads, sizes.d}, dtype, 1)),
        keys(cache(dtype, 2)),
        values(cache(dtype, 3)) {}

  TestTensor run() const { return run(q.tensor, keys.tensor, values.tensor); }
  TestTensor run(const Tensor& of, const Tensor& its_keys, const Tensor& its_values) const {
    TestTensor out(of.shape(), of.dtype());
    attention_decode(of, its_keys, its_values, sizes.length, sizes.options(scale, position_bias),
                     out.tensor);
    return out;
  }

  /// The reference in double precision.
  std::vector<double> expected() const {
    const auto queries = to_doubles(q.tensor), k = to_doubles(keys.tensor),
               v = to_doubles(values.tensor);
    std::vector<double> out(queries.size());
    const auto d = static_cast<size_t>(sizes.d);
    for (size_t head = 0; head < queries.size() / d; ++head) {
      const size_t cache = head / static_cast<size_t>(sizes.heads / sizes.kv_heads);
      const int64_t h = static_cast<int64_t>(head) % sizes.heads;
      const auto row = [&](int64_t s) {
        return (cache * static_cast<size_t>(sizes.capacity()) + static_cast<size_t>(s)) * d;
      };
      std::vector<double> scores;
      std::vector<int64_t> seen;
      for (int64_t s = 0; s < sizes.length; ++s) {
        if (!sizes.sees(h, s)) continue;
        seen.push_back(s);
        double product = 0.0;
        for (size_t i = 0; i < d; ++i) product += queries[head * d + i] * k[row(s) + i];
        scores.push_back(double{scale} * product + bias(head, s) + sizes.additive(h, s));
      }
      if (seen.empty()) continue;
      const double max = *std::max_element(scores.begin(), scores.end());
      double sum = 0.0;
      for (const double score : scores) sum += std::exp(score - max);
      for (size_t at = 0; at < seen.size(); ++at) {
        const double weight = std::exp(scores[at] - max) / sum;
        for (size_t i = 0; i < d; ++i) out[head * d + i] += weight * v[row(seen[at]) + i];
      }
    }
    return out;
  }

 private:
  /// The position bias of key s.
  double bias(size_t head, int64_t s) const {
    if (!position_bias.defined()) return 0.0;
    const int64_t columns = position_bias.dim(1), h = static_cast<int64_t>(head) % sizes.heads;
    const int64_t distance = s - (sizes.length - 1);
    return double{position_bias.data<float>()[h * columns + columns / 2 + distance]};
  }

  TestTensor cache(DType dtype, uint64_t seed) const {
    TestTensor result =
        random_tensor({sizes.batch, sizes.kv_heads, sizes.capacity(), sizes.d}, dtype, seed);
    const Tensor rows = result.tensor.view({result.tensor.numel() / sizes.d, sizes.d});
    for (int64_t row = 0; row < rows.dim(0); ++row) {
      const int64_t s = row % sizes.capacity(), in_group = sizes.heads / sizes.kv_heads;
      const int64_t first = row / sizes.capacity() % sizes.kv_heads * in_group;
      bool is_seen = false;
      for (int64_t h = first; h < first + in_group; ++h) is_seen |= sizes.sees(h, s);
      if (is_seen) continue;
      fill(rows.slice(row, row + 1), std::numeric_limits<double>::quiet_NaN());
    }
    return result;
  }
};

class AttentionDecode : public testing::TestWithParam<DType> {
 protected:
  /// An error of a score, a sum of d products, is a relative error of a weight; a score, which may
  /// be a few times its usual size, has a few more roundings. The rest is a weighted mean.
  static double tolerance(const Sizes& sizes, float score_size = 1.0f) {
    return 4.0 * double{score_size} * sum_tolerance(DType::f32, sizes.d) +
           sum_tolerance(GetParam(), sizes.length);
  }
  static void expect_the_textbooks(const Sizes& sizes, float score_size = 1.0f) {
    SCOPED_TRACE(fmt::format("({}, {}) heads of {}, {} keys, window {} of every {}, {} global",
                             sizes.batch, sizes.heads, sizes.d, sizes.length, sizes.window,
                             sizes.dilation, sizes.global_tokens));
    const Inputs inputs(sizes, GetParam(), score_size);
    expect_close(inputs.run().tensor, inputs.expected(), tolerance(sizes, score_size), "out");
  }
};

TEST_P(AttentionDecode, MatchesReferenceForLengthsAroundChunks) {
  for (const int64_t d : {20, 64}) {
    for (const int64_t length : {int64_t{1}, int64_t{2}, int64_t{15}, int64_t{17}, kChunk - 1,
                                 kChunk, kChunk + 1, 2 * kChunk, 5 * kChunk + 9}) {
      expect_the_textbooks({length, d});
    }
  }
  // A block that combines chunks has 16 warps.
  expect_the_textbooks({17 * kChunk + 1, 32, 0, 1, 2});
}

TEST_P(AttentionDecode, MatchesReferenceForAnyHeadSize) {
  for (const int64_t d : {1, 3, 5, 8, 20, 24, 33, 64, 72, 100, 128, 130, 200, 256}) {
    expect_the_textbooks({kChunk - 7, d, 0, 1, 2});
    expect_the_textbooks({2 * kChunk + 5, d, 0, 2, 1});
  }
}

TEST_P(AttentionDecode, MatchesReferenceForGroupedQueries) {
  for (const Sizes& sizes : {Sizes{kChunk + 5, 64, 0, 2, 6, 2}, Sizes{3, 20, 0, 3, 4, 1},
                             Sizes{3 * kChunk + 21, 128, 2 * kChunk, 2, 8, 4}}) {
    expect_the_textbooks(sizes);
  }
}

TEST_P(AttentionDecode, MatchesReferenceForWindows) {
  constexpr int64_t kLength = 3 * kChunk + 21;
  for (const int64_t window : {int64_t{1}, int64_t{21}, kChunk - 1, kChunk, kChunk + 1,
                               2 * kChunk + 21, kLength - 1, kLength, kLength + 100}) {
    expect_the_textbooks({kLength, 24, window});
  }
}

TEST_P(AttentionDecode, MatchesReferenceForGlobalTokensAndDilation) {
  for (const Sizes& sizes : {
           Sizes{.length = 41, .d = 24, .window = 5, .global_tokens = 3},
           Sizes{.length = 3, .d = 24, .window = 1, .global_tokens = 3},
           Sizes{.length = 4, .d = 24, .window = 1, .global_tokens = 3},
           Sizes{.length = 3 * kChunk + 21, .d = 64, .window = 7, .global_tokens = kChunk + 2},
           Sizes{.length = 3 * kChunk + 21, .d = 64, .window = 300, .global_tokens = 9},
           Sizes{.length = 77, .d = 20, .window = 6, .dilation = 5},
           Sizes{.length = 5 * kChunk + 3, .d = 130, .window = kChunk + 6, .dilation = 3},
           Sizes{.length = 5 * kChunk + 3,
           .d = 64,
           .window = kChunk + 6,
           .heads = 4,
           .kv_heads = 2,
           .dilation = 4,
           .global_tokens = 10},
           Sizes{.length = 9, .d = 8, .window = 100, .dilation = 40, .global_tokens = 1},
       }) {
    expect_the_textbooks(sizes);
    Inputs inputs(sizes, GetParam());
    const TestTensor table = random_tensor({sizes.heads, 2 * sizes.length + 5}, DType::f32, 4);
    inputs.position_bias = table.tensor;
    expect_close(inputs.run().tensor, inputs.expected(), tolerance(sizes), "with a position bias");
  }
}

// The planes also hide every seventh row, in which a query sees nothing, and whole chunks.
TEST_P(AttentionDecode, MatchesReferenceForPlanesByPosition) {
  for (const int64_t length :
       {int64_t{1}, int64_t{4}, int64_t{18}, kChunk + 5, 2 * kChunk - 1, 3 * kChunk + 21}) {
    for (const MaskParts& parts :
         {MaskParts{.hidden = Plane::position}, MaskParts{.hidden = Plane::head_position},
          MaskParts{.additive = Plane::head_position},
          MaskParts{.hidden = Plane::position, .additive = Plane::head_position}}) {
      for (const int64_t window : {int64_t{0}, kChunk + 2}) {
        Sizes sizes{length, 20, window, 2, 4, 2};
        sizes.first_head = 2;
        sizes.total_heads = 7;
        const RandomMask random(parts, 1, length, sizes.total_heads, 5);
        sizes.planes = random.mask;
        expect_the_textbooks(sizes);
        Inputs inputs(sizes, GetParam());
        const TestTensor table = random_tensor({sizes.heads, 2 * length + 5}, DType::f32, 4);
        inputs.position_bias = table.tensor;
        expect_close(inputs.run().tensor, inputs.expected(), tolerance(sizes),
                     "with a position bias");
      }
    }
  }
}

// Exponentials of these scores would overflow, and those of most chunks vanish next to one chunk's.
TEST_P(AttentionDecode, MatchesReferenceForLargeScores) {
  expect_the_textbooks({5 * kChunk, 64}, 40.0f);
  expect_the_textbooks({kChunk, 20}, 40.0f);
}

TEST_P(AttentionDecode, MatchesReferenceWithPositionBias) {
  for (const Sizes& sizes : {Sizes{1, 8}, Sizes{kChunk + 3, 20}, Sizes{3 * kChunk + 21, 64},
                             Sizes{3 * kChunk + 21, 130, kChunk + 5}}) {
    for (const int64_t more : {0, 7}) {  // positions that the table covers beyond the cache
      SCOPED_TRACE(fmt::format("{} keys of {}, window {}", sizes.length, sizes.d, sizes.window));
      Inputs inputs(sizes, GetParam());
      const TestTensor table =
          random_tensor({sizes.heads, 2 * (sizes.length + more) - 1}, DType::f32, 4);
      inputs.position_bias = table.tensor;
      expect_close(inputs.run().tensor, inputs.expected(), tolerance(sizes), "out");
    }
  }
}

TEST_P(AttentionDecode, SupportsAnyAlignment) {
  for (const int64_t d : {24, 64, 128, 256}) {
    const Inputs inputs({kChunk + 6, d}, GetParam());
    for (const int64_t offset : {1, 2}) {
      const Shifted q(inputs.q.tensor, offset), keys(inputs.keys.tensor, offset),
          values(inputs.values.tensor, offset);
      expect_close(inputs.run(q.view, keys.view, values.view).tensor, inputs.expected(),
                   tolerance(inputs.sizes), "out");
    }
  }
}

TEST_P(AttentionDecode, BitsDoNotDependOnOtherHeads) {
  for (const Sizes& sizes : {Sizes{5 * kChunk + 9, 64}, Sizes{2 * kChunk, 20},
                             Sizes{17 * kChunk + 1, 5}, Sizes{300, 128, 2 * kChunk + 3}}) {
    SCOPED_TRACE(fmt::format("{} keys of {}", sizes.length, sizes.d));
    const Inputs inputs(sizes, GetParam());
    const TestTensor all = inputs.run();
    const int64_t heads = sizes.batch * sizes.heads;
    for (int64_t i = 0; i < heads; ++i) {
      const auto head = [&](const TestTensor& of, const Shape& shape) {
        return of.tensor.view(shape).slice(i, i + 1);
      };
      const Shape rows{heads, 1, sizes.d}, caches{heads, 1, sizes.capacity(), sizes.d};
      const TestTensor alone =
          inputs.run(head(inputs.q, rows), head(inputs.keys, caches), head(inputs.values, caches));
      expect_same_bits(alone.tensor, head(all, rows), "out");
    }
  }
}

TEST_P(AttentionDecode, WindowMatchesCacheOfItsKeysOnly) {
  for (const Sizes& sizes : {Sizes{37, 16, 5}, Sizes{3 * kChunk + 21, 64, kChunk + 1},
                             Sizes{3 * kChunk + 21, 20, 2 * kChunk}}) {
    const Inputs inputs(sizes, GetParam());
    const auto last_keys = [&](const Tensor& cache) {
      const int64_t heads = sizes.batch * sizes.heads, window = sizes.window;
      TestTensor last({sizes.batch, sizes.heads, window, sizes.d}, GetParam());
      for (int64_t i = 0; i < heads; ++i) {
        const int64_t end = i * sizes.capacity() + sizes.length;
        copy(cache.view({heads * sizes.capacity(), sizes.d}).slice(end - window, end),
             last.tensor.view({heads * window, sizes.d}).slice(i * window, (i + 1) * window));
      }
      return last;
    };
    const TestTensor found = inputs.run(), expected(inputs.q.tensor.shape(), GetParam());
    AttentionOptions whole;
    whole.scale = inputs.scale;
    attention_decode(inputs.q.tensor, last_keys(inputs.keys.tensor).tensor,
                     last_keys(inputs.values.tensor).tensor, sizes.window, whole, expected.tensor);
    expect_same_bits(found.tensor, expected.tensor, "out");
  }
}

TEST_P(AttentionDecode, LongWindowHidesNothing) {
  const Inputs windowed({kChunk + 6, 24, 100}, GetParam()), whole({kChunk + 6, 24}, GetParam());
  expect_same_bits(windowed.run().tensor, whole.run().tensor, "out");
}

INSTANTIATE_TEST_SUITE_P(DTypes, AttentionDecode, testing::Values(DType::f32, DType::bf16),
                         name_of_dtype);

}  // namespace
}  // namespace tessera
