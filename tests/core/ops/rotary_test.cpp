#include "core/ops/rotary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "tests/support/expect_error.h"
#include "tests/support/finite_difference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

struct Sizes {
  int64_t batch, seq, heads, d;  ///< of which all but the last head are rotated

  Shape x() const { return {batch, seq, heads, d}; }
  int64_t rotated() const { return heads - 1; }
};

constexpr double kTurn = 6.283185307179586;

/// The formulas of transformers' modeling_rope_utils.py, one frequency at a time.
double reference_frequency(const RotaryFrequencies& f, int64_t i, int64_t d) {
  const auto dim = static_cast<double>(d), index = static_cast<double>(i);
  const double plain = std::pow(f.base, -2.0 * index / dim), scaled = plain / f.factor;
  switch (f.scaling) {
    case RotaryScaling::none:
      return plain;
    case RotaryScaling::linear:
      return scaled;
    case RotaryScaling::llama3: {
      const double wavelength = kTurn / plain;
      const auto length = static_cast<double>(f.original_length);
      if (wavelength < length / f.high_freq_factor) return plain;
      if (wavelength > length / f.low_freq_factor) return scaled;
      const double smooth =
          (length / wavelength - f.low_freq_factor) / (f.high_freq_factor - f.low_freq_factor);
      return (1.0 - smooth) * scaled + smooth * plain;
    }
    case RotaryScaling::yarn:
      break;
  }
  const auto correction = [&](double turns) {
    return dim * std::log(static_cast<double>(f.original_length) / (turns * kTurn)) /
           (2.0 * std::log(f.base));
  };
  const double low = std::max(std::floor(correction(f.beta_fast)), 0.0);
  const double high = std::min(std::ceil(correction(f.beta_slow)), dim - 1.0);
  const double ramp = std::clamp((index - low) / (high - low), 0.0, 1.0);
  return scaled * ramp + plain * (1.0 - ramp);
}

double reference_amplitude(const RotaryFrequencies& f) {
  if (f.scaling != RotaryScaling::yarn) return 1.0;
  return f.attention_factor > 0.0 ? f.attention_factor : 0.1 * std::log(f.factor) + 1.0;
}

/// Hugging Face's x × cos + rotate_half(x) × sin, with cos and sin of the angles repeated.
std::vector<double> reference(std::span<const double> qkv, std::span<const int32_t> positions,
                              const Sizes& sizes, const RotaryFrequencies& f = {}) {
  std::vector<double> result(qkv.begin(), qkv.end());
  const int64_t d = sizes.d, half = d / 2;
  for (size_t n = 0; n < positions.size(); ++n) {
    for (int64_t h = 0; h < sizes.rotated(); ++h) {
      const int64_t at = (static_cast<int64_t>(n) * sizes.heads + h) * d;
      for (int64_t i = 0; i < d; ++i) {
        const double angle = positions[n] * reference_frequency(f, i % half, d);
        const auto x = [&](int64_t j) { return qkv[static_cast<size_t>(at + j)]; };
        const double rotated = i < half ? -x(i + half) : x(i - half);
        result[static_cast<size_t>(at + i)] =
            reference_amplitude(f) * (x(i) * std::cos(angle) + rotated * std::sin(angle));
      }
    }
  }
  return result;
}

TestTensor table_of(const Tensor& positions, int64_t d, const RotaryFrequencies& f = {}) {
  TestTensor table({positions.numel(), d}, DType::f32);
  rotary_table(positions, f, table.tensor);
  return table;
}

TEST(Rotary, MatchesReference) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Sizes& sizes : {Sizes{1, 1, 2, 2}, Sizes{2, 7, 9, 6}, Sizes{2, 70, 5, 64}}) {
      const TestTensor positions = random_ints({sizes.batch * sizes.seq}, 0, 5000, 1);
      const TestTensor table = table_of(positions.tensor, sizes.d);
      const TestTensor qkv = random_tensor(sizes.x(), dtype, 2);
      const auto expected =
          reference(to_doubles(qkv.tensor), positions.tensor.span<int32_t>(), sizes);
      rotary_forward(table.tensor, sizes.rotated(), qkv.tensor);
      expect_close(qkv.tensor, expected, sum_tolerance(dtype, 2), "qkv");
    }
  }
}

// Each kind has frequencies that stay, that are scaled fully, and that are in between.
TEST(Rotary, ScalesFrequenciesLikeTransformers) {
  const Sizes sizes{1, 40, 2, 64};
  const TestTensor positions = random_ints({sizes.seq}, 0, 9000, 1);
  const RotaryFrequencies linear{.scaling = RotaryScaling::linear, .factor = 4.0};
  const RotaryFrequencies llama3{
      .base = 500000.0, .scaling = RotaryScaling::llama3, .factor = 8.0, .original_length = 8192};
  RotaryFrequencies yarn{
      .base = 1e6, .scaling = RotaryScaling::yarn, .factor = 4.0, .original_length = 4096};
  RotaryFrequencies given = yarn;
  given.attention_factor = 1.5;
  given.beta_fast = 16.0;
  for (const RotaryFrequencies& f : {linear, llama3, yarn, given}) {
    SCOPED_TRACE(static_cast<int>(f.scaling));
    const TestTensor qkv = random_tensor(sizes.x(), DType::f32, 2);
    const auto expected =
        reference(to_doubles(qkv.tensor), positions.tensor.span<int32_t>(), sizes, f);
    rotary_forward(table_of(positions.tensor, sizes.d, f).tensor, sizes.rotated(), qkv.tensor);
    expect_close(qkv.tensor, expected, sum_tolerance(DType::f32, 2), "qkv");
  }
}

TEST(Rotary, BackwardIsTranspose) {
  const Sizes sizes{2, 5, 3, 8};
  const TestTensor positions = random_ints({sizes.batch * sizes.seq}, 0, 50, 1);
  const TestTensor table = table_of(positions.tensor, sizes.d);
  const TestTensor x = random_tensor(sizes.x(), DType::f32, 2);
  const TestTensor dy = random_tensor(sizes.x(), DType::f32, 3);
  const auto dys = to_doubles(dy.tensor);
  const auto numeric = finite_difference(
      [&](std::span<const double> point) {
        return dot(reference(point, positions.tensor.span<int32_t>(), sizes), dys);
      },
      to_doubles(x.tensor));
  rotary_backward(table.tensor, sizes.rotated(), dy.tensor);
  expect_close(dy.tensor, numeric, sum_tolerance(DType::f32, 2), "dx");
}

TEST(Rotary, ScoresDependOnDistanceOnly) {
  const Sizes sizes{1, 2, 3, 16};
  const auto score = [&](std::vector<int32_t> positions) {
    const TestTensor at = from_ints(positions, {2});
    const TestTensor qkv = random_tensor(sizes.x(), DType::f32, 2);
    rotary_forward(table_of(at.tensor, sizes.d).tensor, 2, qkv.tensor);
    const auto x = to_doubles(qkv.tensor);
    return dot(std::span(x).subspan(0, 16), std::span(x).subspan(4 * 16, 16));
  };
  EXPECT_NEAR(score({3, 10}), score({1003, 1010}), 1e-5);
  EXPECT_GT(std::abs(score({3, 10}) - score({3, 11})), 1e-3);
}

TEST(Rotary, BitsDoNotDependOnThreads) {
  if (on_gpu()) GTEST_SKIP() << "a GPU op does not use the host's threads";
  const Sizes sizes{2, 301, 4, 64};
  const TestTensor positions = random_ints({sizes.batch * sizes.seq}, 0, 512, 1);
  const auto run = [&](int threads) {
    const ThreadCount count(threads);
    TestTensor qkv = random_tensor(sizes.x(), DType::f32, 2);
    rotary_forward(table_of(positions.tensor, sizes.d).tensor, sizes.rotated(), qkv.tensor);
    return qkv;
  };
  expect_same_bits(run(3).tensor, run(1).tensor, "qkv");
}

TEST(Rotary, RefusesWrongArguments) {
  const TestTensor positions({4}, DType::i32), odd({4, 5}, DType::f32), table({4, 6}, DType::f32);
  const TestTensor qkv({2, 2, 3, 8}, DType::f32), odd_qkv({2, 2, 3, 5}, DType::f32);
  expect_error([&] { rotary_table(positions.tensor, {}, odd.tensor); },
               {"rotary_table", "(4, D) with an even D", "(4, 5)"});
  const auto refused = [&](const RotaryFrequencies& f, std::initializer_list<const char*> parts) {
    expect_error([&] { rotary_table(positions.tensor, f, table.tensor); }, parts);
  };
  refused({.base = 0.0}, {"base", "positive"});
  refused({.scaling = RotaryScaling::linear, .factor = 0.0}, {"factor", "positive"});
  refused({.scaling = RotaryScaling::yarn, .factor = 2.0}, {"original length", "positive"});
  refused({.scaling = RotaryScaling::llama3,
           .factor = 2.0,
           .original_length = 8,
           .low_freq_factor = 4.0},
          {"high_freq_factor", "4"});
  expect_error([&] { rotary_forward(odd.tensor, 2, odd_qkv.tensor); },
               {"rotary_forward", "even D", "(2, 2, 3, 5)"});
  expect_error([&] { rotary_backward(table.tensor, 2, qkv.tensor); },
               {"rotary_backward", "table must have shape (4, 8)", "(4, 6)"});
  expect_error([&] { rotary_forward(table.tensor, 4, qkv.tensor); },
               {"rotary_forward: 4 of the 3 heads of x"});
}

}  // namespace
}  // namespace tessera
