#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/ops/attention.h"
#include "core/ops/elementwise.h"
#include "tests/support/attention/attention_masks.h"
#include "tests/support/tensors.h"

/// Properties that hold bit for bit, for any numbers.
namespace tessera {
namespace {

using namespace test;

constexpr int64_t kHeads = 3, kDim = 16;
constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

AttentionOptions options_of(const AttentionMask& mask, float dropout = 0.0f) {
  AttentionOptions options;
  options.scale = 0.25f;
  options.mask = mask;
  options.dropout = {dropout, {7, RandomPurpose::attention_dropout, 3, 11}, 5};
  options.total_heads = kHeads;
  return options;
}

struct Inputs {
  TestTensor qkv, dout;

  Inputs(int64_t batch, int64_t seq, DType dtype)
      : qkv(random_tensor({batch, seq, 3 * kHeads, kDim}, dtype, 1)),
        dout(random_tensor({batch, seq, kHeads, kDim}, dtype, 2)) {}

  AttentionRun run(const AttentionOptions& options) const {
    return AttentionRun(qkv.tensor, dout.tensor, options);
  }
};

void expect_same(const AttentionRun& actual, const AttentionRun& expected) {
  expect_same_bits(actual.out.tensor, expected.out.tensor, "out");
  expect_same_bits(actual.log_sum_exp.tensor, expected.log_sum_exp.tensor, "log_sum_exp");
  expect_same_bits(actual.dqkv.tensor, expected.dqkv.tensor, "dqkv");
}

TestTensor uint8s(const Shape& shape, auto&& hides) {
  TestTensor result(shape, DType::u8);
  for (int64_t i = 0; i < shape.numel(); ++i) result.tensor.data<uint8_t>()[i] = hides(i) ? 1 : 0;
  return result;
}

/// 0 where `hidden` is 0, −inf where it is 1.
TestTensor additive_form(const Tensor& hidden) {
  TestTensor result(hidden.shape(), DType::f32);
  for (int64_t i = 0; i < hidden.numel(); ++i) {
    result.tensor.data<float>()[i] = hidden.data<uint8_t>()[i] != 0 ? kMinusInf : 0.0f;
  }
  return result;
}

class AttentionMaskProperties : public testing::TestWithParam<DType> {
 protected:
  const DType dtype = GetParam();
};

TEST_P(AttentionMaskProperties, HiddenKeyChangesNothing) {
  constexpr int64_t kSeq = 150;
  const auto hidden_key = [](int64_t s) { return s % 5 == 2 || s >= 140 || (s >= 64 && s < 128); };
  const TestTensor keys = uint8s({1, kSeq}, [&](int64_t i) { return hidden_key(i); });
  const TestTensor plane = uint8s({kSeq, kSeq}, [&](int64_t i) { return hidden_key(i % kSeq); });
  const TestTensor additive = additive_form(plane.tensor);
  const Inputs inputs(1, kSeq, dtype);
  Inputs changed(1, kSeq, dtype);
  // The largest number, with both signs: its scores and gradients overflow.
  const double largest = dtype == DType::bf16 ? 0x1.fep127 : 0x1.fffffep127;
  for (int64_t s = 0; s < kSeq; ++s) {
    if (!hidden_key(s)) continue;
    const Tensor row = changed.qkv.tensor.view({kSeq * 3, kHeads * kDim});
    fill(row.slice(3 * s + 1, 3 * s + 2), s % 2 == 0 ? largest : -largest);
    fill(row.slice(3 * s + 2, 3 * s + 3), s % 3 == 0 ? largest : -largest);
  }
  for (const bool causal : {false, true}) {
    for (const Tensor* part : {&keys.tensor, &plane.tensor, &additive.tensor}) {
      AttentionMask mask;
      mask.causal = causal;
      if (part == &keys.tensor) mask.hidden_keys = *part;
      if (part == &plane.tensor) mask.hidden = *part;
      if (part == &additive.tensor) mask.additive = *part;
      for (const float dropout : {0.0f, 0.2f}) {
        expect_same(changed.run(options_of(mask, dropout)), inputs.run(options_of(mask, dropout)));
      }
    }
  }
}

TEST_P(AttentionMaskProperties, MorePaddingChangesNothing) {
  for (const int64_t length : {1, 40, 64, 100}) {
    const int64_t padded = length + 77;
    const Inputs inputs(1, padded, dtype);
    Inputs alone(1, length, dtype);
    copy(rows_within(inputs.qkv.tensor, 0, length), alone.qkv.tensor);
    copy(rows_within(inputs.dout.tensor, 0, length), alone.dout.tensor);
    // The outputs of padding have no gradient.
    const int64_t width = kHeads * kDim;
    fill(inputs.dout.tensor.view({padded, width}).slice(length, padded), 0.0);
    const AttentionRun expected = alone.run(options_of({}));

    const TestTensor lengths = from_ints(std::vector{static_cast<int32_t>(length)}, {1});
    const TestTensor keys = uint8s({1, padded}, [&](int64_t i) { return i >= length; });
    const TestTensor plane =
        uint8s({1, 1, padded, padded}, [&](int64_t i) { return i % padded >= length; });
    const TestTensor additive = additive_form(plane.tensor);
    AttentionMask masks[4];
    masks[0].lengths = lengths.tensor;
    masks[1].hidden_keys = keys.tensor;
    masks[2].hidden = plane.tensor;
    masks[3].additive = additive.tensor;
    for (const AttentionMask& mask : masks) {
      const AttentionRun run = inputs.run(options_of(mask));
      const Tensor out = rows_within(run.out.tensor, 0, length);
      const Tensor dqkv = rows_within(run.dqkv.tensor, 0, length);
      if (on_gpu() && dtype == DType::bf16 && mask.lengths.defined()) {
        // cuDNN may compute these, and sums in its own order.
        const double tolerance = sum_tolerance(dtype, kDim) * 4 + sum_tolerance(dtype, padded);
        expect_close(out, to_doubles(expected.out.tensor), tolerance, "out");
        expect_close(dqkv, to_doubles(expected.dqkv.tensor), 4 * tolerance, "dqkv");
      } else {
        expect_same_bits(out, expected.out.tensor, "out");
        expect_same_bits(dqkv, expected.dqkv.tensor, "dqkv");
      }
      const Tensor padding = run.dqkv.tensor.view({padded, 3 * width}).slice(length, padded);
      for (const double x : to_doubles(padding)) ASSERT_EQ(x, 0.0) << "gradient of padding";
    }
  }
}

/// What positions within a document say.
std::vector<RandomMask> position_masks() {
  constexpr int64_t kLongest = 200;
  std::vector<RandomMask> masks;
  for (const MaskParts& parts : std::vector<MaskParts>{
           {},
           {.causal = true},
           {.window = 20},
           {.causal = true, .window = 20},
           {.causal = true, .prefix = 35},
           {.window = 9, .global_tokens = 3},
           {.window = 4, .dilation = 5, .global_tokens = 1},
           {.causal = true, .window = 6, .dilation = 3, .prefix = 12, .global_tokens = 2},
           {.hidden = Plane::position},
           {.causal = true, .hidden = Plane::head_position},
           {.additive = Plane::head_position},
           {.window = 9, .global_tokens = 3, .hidden = Plane::position}}) {
    masks.emplace_back(parts, 1, kLongest, kHeads, 1);
  }
  return masks;
}

TEST_P(AttentionMaskProperties, PackedDocumentsEqualSeparateOnes) {
  if (on_gpu()) GTEST_SKIP() << "on a GPU, tiles start at the first row of a sequence";
  constexpr int64_t kSeq = 200;
  const std::vector<int32_t> ends = {0, 30, 31, 130, 200};
  const TestTensor documents = from_ints(ends, {5});
  const Inputs inputs(1, kSeq, dtype);
  for (const RandomMask& random : position_masks()) {
    AttentionMask mask = random.mask;
    SCOPED_TRACE(to_string(kinds_of(mask)));
    const AttentionOptions apart = options_of(mask);
    mask.documents = documents.tensor;
    const AttentionRun packed = inputs.run(options_of(mask));
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      const TestTensor qkv = copy_of(rows_within(inputs.qkv.tensor, ends[i], ends[i + 1]));
      const TestTensor dout = copy_of(rows_within(inputs.dout.tensor, ends[i], ends[i + 1]));
      const AttentionRun run(qkv.tensor, dout.tensor, apart);
      expect_same_bits(rows_within(packed.out.tensor, ends[i], ends[i + 1]), run.out.tensor, "out");
      expect_same_bits(rows_within(packed.dqkv.tensor, ends[i], ends[i + 1]), run.dqkv.tensor,
                       "dqkv");
    }
  }
}

/// The rows of a padded batch that remain without padding, (1, N, ...).
TestTensor kept_rows(const Tensor& padded, const std::vector<int32_t>& places) {
  const auto count = static_cast<int64_t>(places.size());
  const int64_t rows = padded.dim(0) * padded.dim(1), columns = padded.numel() / rows;
  Shape shape = padded.shape();
  shape.set(0, 1);
  shape.set(1, count);
  TestTensor kept(shape, padded.dtype());
  for (int64_t n = 0; n < count; ++n) {
    const int32_t place = places[static_cast<size_t>(n)];
    copy(padded.view({rows, columns}).slice(place, place + 1),
         kept.tensor.view({count, columns}).slice(n, n + 1));
  }
  return kept;
}

TEST_P(AttentionMaskProperties, RemovingPaddingChangesNothing) {
  constexpr int64_t kBatch = 3, kSeq = 110;
  const std::vector<int32_t> lengths = {70, 0, 110};
  const std::vector<int32_t> padded_ends = {0, 20, 70, 110, 220, 290, 330};
  const std::vector<int32_t> compact_ends = {0, 20, 70, 140, 180};
  std::vector<int32_t> places;
  for (int32_t b = 0; b < kBatch; ++b) {
    for (int32_t t = 0; t < lengths[static_cast<size_t>(b)]; ++t) places.push_back(b * kSeq + t);
  }
  const TestTensor length = from_ints(lengths, {kBatch}), ends = from_ints(padded_ends, {7});
  const TestTensor compact = from_ints(compact_ends, {5});
  const TestTensor place = from_ints(places, {static_cast<int64_t>(places.size())});
  const Inputs inputs(kBatch, kSeq, dtype);
  const TestTensor qkv = kept_rows(inputs.qkv.tensor, places);
  const TestTensor dout = kept_rows(inputs.dout.tensor, places);
  const TestTensor hidden =
      uint8s({kBatch, kSeq}, [](int64_t i) { return i % 4 == 1 || (75 < i && i < 150); });
  const TestTensor kept_hidden = kept_rows(hidden.tensor.view({kBatch, kSeq, 1}), places);
  const std::vector<RandomMask> masks = position_masks();
  for (size_t i = 0; i <= masks.size(); ++i) {
    const bool hides_keys = i == masks.size();
    AttentionMask mask = masks[hides_keys ? i - 1 : i].mask;
    SCOPED_TRACE(to_string(kinds_of(mask)));
    mask.lengths = length.tensor;
    mask.documents = ends.tensor;
    if (hides_keys) mask.hidden_keys = hidden.tensor;
    const AttentionRun padded = inputs.run(options_of(mask, 0.2f));
    mask.lengths = {};
    mask.documents = compact.tensor;
    if (hides_keys) mask.hidden_keys = kept_hidden.tensor.view({1, std::ssize(places)});
    AttentionOptions options = options_of(mask, 0.2f);
    options.padded_rows = {place.tensor, kSeq};
    const AttentionRun run(qkv.tensor, dout.tensor, options);
    const TestTensor out = kept_rows(padded.out.tensor, places);
    const TestTensor dqkv = kept_rows(padded.dqkv.tensor, places);
    if (!on_gpu()) {
      expect_same_bits(run.out.tensor, out.tensor, "out");
      expect_same_bits(run.dqkv.tensor, dqkv.tensor, "dqkv");
      continue;
    }
    // A GPU's tiles start at the first row of a sequence, so sums have another order; a bf16 may
    // round the other way.
    const double tolerance = 4 * sum_tolerance(dtype, kSeq);
    expect_close(run.out.tensor, to_doubles(out.tensor), tolerance, "out");
    expect_close(run.dqkv.tensor, to_doubles(dqkv.tensor), tolerance, "dqkv");
  }
}

TEST_P(AttentionMaskProperties, AdditiveEqualsBooleanMask) {
  constexpr int64_t kBatch = 2, kSeq = 140;
  const Inputs inputs(kBatch, kSeq, dtype);
  for (const Plane plane : {Plane::square, Plane::batch, Plane::heads}) {
    for (const bool causal : {false, true}) {
      MaskParts parts;
      parts.hidden = plane;
      parts.causal = causal;
      const RandomMask boolean(parts, kBatch, kSeq, kHeads, 5);
      const TestTensor additive = additive_form(boolean.mask.hidden);
      AttentionMask mask = boolean.mask;
      mask.hidden = {};
      mask.additive = additive.tensor;
      expect_same(inputs.run(options_of(mask, 0.1f)), inputs.run(options_of(boolean.mask, 0.1f)));
    }
  }
}

TEST_P(AttentionMaskProperties, PartsEqualBooleanMasks) {
  constexpr int64_t kBatch = 2, kSeq = 150, kWindow = 30;
  const std::vector<int32_t> length = {90, 150};
  const TestTensor lengths = from_ints(length, {kBatch});
  const TestTensor plane = uint8s({kBatch, 1, kSeq, kSeq}, [&](int64_t i) {
    const int64_t b = i / (kSeq * kSeq), t = i / kSeq % kSeq, s = i % kSeq;
    return s > t || t - s >= kWindow || s >= length[static_cast<size_t>(b)];
  });
  AttentionMask parts, boolean;
  parts.causal = true;
  parts.window = kWindow;
  parts.lengths = lengths.tensor;
  boolean.hidden = plane.tensor;
  const Inputs inputs(kBatch, kSeq, dtype);
  expect_same(inputs.run(options_of(parts, 0.1f)), inputs.run(options_of(boolean, 0.1f)));
}

// A tile that is visited multiplies its values by weights of 0, so NaN would reach the output.
TEST_P(AttentionMaskProperties, TilesBetweenVisibleKeysAreNotVisited) {
  struct Case {
    MaskParts parts;
    int64_t seq;
    Range queries;
    std::vector<Range> unseen;  ///< tiles of keys
  };
  for (const Case& c :
       {Case{{.causal = true, .window = 20, .global_tokens = 3}, 300, {256, 300}, {{64, 192}}},
        Case{{.window = 30, .global_tokens = 64}, 330, {192, 256}, {{64, 128}, {320, 330}}},
        Case{{.causal = true, .window = 3, .dilation = 128},
             400,
             {320, 384},
             {{128, 192}, {256, 320}}},
        Case{{.window = 2, .dilation = 128, .global_tokens = 5},
             330,
             {64, 128},
             {{128, 192}, {256, 330}}}}) {
    const RandomMask random(c.parts, 1, c.seq, kHeads, 1);
    SCOPED_TRACE(to_string(kinds_of(random.mask)));
    const Inputs inputs(1, c.seq, dtype);
    const Tensor rows = inputs.qkv.tensor.view({c.seq, 3 * kHeads * kDim});
    for (const Range keys : c.unseen) {
      fill(rows.slice(keys.begin, keys.end), std::numeric_limits<double>::quiet_NaN());
    }
    const AttentionRun run = inputs.run(options_of(random.mask, 0.1f));
    const auto expect_finite = [&](const Tensor& tensor, int64_t columns, const char* what) {
      const Tensor of_rows = tensor.view({c.seq, tensor.numel() / c.seq});
      const int64_t all = of_rows.dim(1);
      const std::vector<double> values = to_doubles(of_rows.slice(c.queries.begin, c.queries.end));
      for (size_t i = 0; i < values.size(); ++i) {
        if (static_cast<int64_t>(i) % all >= columns) continue;
        ASSERT_TRUE(std::isfinite(values[i])) << what << " " << i;
      }
    };
    expect_finite(run.out.tensor, kHeads * kDim, "out");
    expect_finite(run.dqkv.tensor, kHeads * kDim, "dq");
  }
}

TEST_P(AttentionMaskProperties, FullyMaskedRowsAreZero) {
  constexpr int64_t kBatch = 2, kSeq = 70;
  const TestTensor lengths = from_ints(std::vector<int32_t>{0, 0}, {kBatch});
  const TestTensor keys = uint8s({kBatch, kSeq}, [](int64_t) { return true; });
  const TestTensor plane = uint8s({kSeq, kSeq}, [](int64_t) { return true; });
  const TestTensor additive = additive_form(plane.tensor);
  AttentionMask masks[4];
  masks[0].lengths = lengths.tensor;
  masks[1].hidden_keys = keys.tensor;
  masks[2].hidden = plane.tensor;
  masks[3].additive = additive.tensor;
  const Inputs inputs(kBatch, kSeq, dtype);
  for (const AttentionMask& mask : masks) {
    const AttentionRun run = inputs.run(options_of(mask, 0.1f));
    for (const double x : to_doubles(run.out.tensor)) ASSERT_EQ(x, 0.0);
    for (const double x : to_doubles(run.dqkv.tensor)) ASSERT_EQ(x, 0.0);
    for (const float x : run.log_sum_exp.tensor.span<float>()) ASSERT_EQ(x, kMinusInf);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, AttentionMaskProperties, testing::Values(DType::f32, DType::bf16),
                         name_of_dtype);

}  // namespace
}  // namespace tessera
