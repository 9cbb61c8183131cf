#include "core/ops/stochastic_rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/ops/adamw.h"
#include "core/parameters/parameter.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/shards.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

const RandomKey kKey{42, RandomPurpose::stochastic_rounding, 0, 7};

/// A finite number lies between this bf16 and the next away from zero.
bfloat16 toward_zero(float value) {
  bfloat16 result{};
  result.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  return result;
}
bfloat16 next_away(bfloat16 value) {
  ++value.bits;
  return value;
}

TEST(StochasticRounding, ReturnsOneOfTwoNeighbors) {
  const TestTensor x = random_tensor({4096}, DType::f32, 1), y({4096}, DType::bf16);
  round_stochastically(x.tensor, {kKey}, y.tensor);
  const std::vector<double> values = to_doubles(x.tensor);
  int up = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    const uint16_t got = y.tensor.span<bfloat16>()[i].bits, down = toward_zero(value).bits;
    ASSERT_TRUE(got == down || got == next_away(toward_zero(value)).bits) << value;
    up += got != down ? 1 : 0;
  }
  // The dropped bits are practically uniform: half of 4096 round up, with a standard deviation of
  // 32.
  EXPECT_NEAR(up, 2048, 5 * 32);
}

TEST(StochasticRounding, MeanOverAllWordsIsExact) {
  for (const float value : {1.0f + 0x1p-23f, 3.14159265f, -2.71828183f, 1e-30f, -7.77e20f, 1e-40f,
                            std::nextafter(1.0f, 0.0f)}) {
    const auto cut = static_cast<int64_t>(std::bit_cast<uint32_t>(value) & 0xffffu);
    const bfloat16 down = toward_zero(value);
    int64_t up = 0;
    for (uint32_t word = 0; word < 65536; ++word) {
      // The upper half of a word has no influence.
      const bfloat16 got = round_stochastically(value, word | word << 16);
      if (got.bits == down.bits) continue;
      ASSERT_EQ(got.bits, next_away(down).bits) << value;
      ++up;
    }
    EXPECT_EQ(up, cut) << value;
    const double low = static_cast<float>(down), high = static_cast<float>(next_away(down));
    const double share = static_cast<double>(up) / 65536.0;
    EXPECT_EQ(low + share * (high - low), static_cast<double>(value)) << value;
  }
}

TEST(StochasticRounding, KeepsBf16Numbers) {
  for (const float value : {0.0f, -0.0f, 1.0f, -1.5f, 0x1p-126f, 3.3895313892515355e38f}) {
    for (const uint32_t word : {0u, 1u, 0x8000u, 0xffffu, 0xffffffffu}) {
      const auto got = static_cast<float>(round_stochastically(value, word));
      EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(value)) << value;
    }
  }
}

TEST(StochasticRounding, KeepsInfinityAndNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const uint32_t word : {0u, 0x8000u, 0xffffu}) {
    EXPECT_EQ(static_cast<float>(round_stochastically(infinity, word)), infinity);
    EXPECT_EQ(static_cast<float>(round_stochastically(-infinity, word)), -infinity);
    // Includes NaNs whose payload is in the dropped half, or that an addition would overflow.
    for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7fc00000u}) {
      const auto got = static_cast<float>(round_stochastically(std::bit_cast<float>(bits), word));
      EXPECT_TRUE(std::isnan(got)) << std::hex << bits;
    }
  }
}

/// Rounds the elements of `x` one by one, with the words of random_bits().
std::vector<bfloat16> one_by_one(const Tensor& x, const StochasticRounding& rounding) {
  std::vector<bfloat16> expected;
  const std::vector<double> values = to_doubles(x);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto element =
        static_cast<uint64_t>(rounding.index(rounding.begin + static_cast<int64_t>(i)));
    const auto word = random_bits(rounding.key, element);
    expected.push_back(round_stochastically(static_cast<float>(values[i]), word));
  }
  return expected;
}

void expect_bits(const Tensor& actual, const std::vector<bfloat16>& expected, const char* what) {
  const TestTensor copy = copy_of(actual);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(copy.tensor.span<bfloat16>()[i].bits, expected[i].bits) << what << ", element " << i;
  }
}

// Whole tensors and slices; rows of a multiple of 4, for which a kernel draws a block of words at
// once, and other rows.
const std::vector<StochasticRounding> kRoundings = {
    {kKey},
    {kKey, {}, 8},
    {kKey, {}, 3},
    {kKey, {INT64_MAX, INT64_MAX, (int64_t{1} << 33) + 4}},
    {kKey, {INT64_MAX, INT64_MAX, 5}},
    {kKey, {16, 64, 32}},
    {kKey, {16, 64, 32}, 20},
    {kKey, {16, 64, 32}, 21},
    {kKey, {7, 21, 14}, 2},
    {kKey, {12, 26, 13}},
};

TEST(StochasticRounding, BitsDependOnGlobalIndex) {
  for (const int64_t n : {0, 1, 3, 4, 17, 1024, 1027, 70001}) {
    const TestTensor x = random_tensor({n}, DType::f32, 3);
    for (const StochasticRounding& rounding : kRoundings) {
      const TestTensor y({n}, DType::bf16);
      round_stochastically(x.tensor, rounding, y.tensor);
      expect_bits(y.tensor, one_by_one(x.tensor, rounding), "rounded");
    }
  }
}

TEST(StochasticRounding, AdamWRoundsMasters) {
  constexpr int64_t kCount = 40003;
  for (const StochasticRounding& rounding : kRoundings) {
    const TestTensor grad = random_tensor({kCount}, DType::f32, 1),
                     scale = from_doubles({{1.0}}, {1}, DType::f32);
    const TestTensor m({kCount}, DType::f32), v({kCount}, DType::f32), value({kCount}, DType::bf16);
    const TestTensor master = random_tensor({kCount}, DType::f32, 4);
    const TestTensor m2({kCount}, DType::f32), v2({kCount}, DType::f32),
        value2({kCount}, DType::bf16);
    const TestTensor master2 = copy_of(master.tensor);
    AdamW settings{1e-2f, 0.9f, 0.99f, 1e-8f, 0.1f, 3};
    adamw_step(settings, scale.tensor, grad.tensor, m2.tensor, v2.tensor, master2.tensor,
               value2.tensor);
    settings.rounding = rounding;
    adamw_step(settings, scale.tensor, grad.tensor, m.tensor, v.tensor, master.tensor,
               value.tensor);
    expect_same_bits(master.tensor, master2.tensor, "masters, which are not rounded");
    expect_same_bits(m.tensor, m2.tensor, "exp_avg");
    expect_same_bits(v.tensor, v2.tensor, "exp_avg_sq");
    expect_bits(value.tensor, one_by_one(master.tensor, rounding), "values");
  }
}

TEST(StochasticRounding, AdamWKeepsValuesForNaNScale) {
  const TestTensor grad = random_tensor({64}, DType::f32, 1), m({64}, DType::f32),
                   v({64}, DType::f32);
  const TestTensor master = random_tensor({64}, DType::f32, 4), value({64}, DType::bf16);
  const TestTensor scale = from_doubles({{std::nan("")}}, {1}, DType::f32);
  AdamW settings;
  settings.rounding = {kKey};
  adamw_step(settings, scale.tensor, grad.tensor, m.tensor, v.tensor, master.tensor, value.tensor);
  for (const double x : to_doubles(value.tensor)) EXPECT_EQ(x, 0.0);
}

TEST(StochasticRounding, BitsDoNotDependOnRangesOrThreads) {
  constexpr int64_t kCount = 100003, kCut = 33333;
  const TestTensor x = random_tensor({kCount}, DType::f32, 3), whole({kCount}, DType::bf16);
  const GlobalIndex index{1000, 3000, 1000};
  {
    const ThreadCount one(1);
    round_stochastically(x.tensor, {kKey, index}, whole.tensor);
  }
  const ThreadCount three(3);
  const TestTensor y({kCount}, DType::bf16);
  round_stochastically(x.tensor.slice(0, kCut), {kKey, index}, y.tensor.slice(0, kCut));
  round_stochastically(x.tensor.slice(kCut, kCount), {kKey, index, kCut},
                       y.tensor.slice(kCut, kCount));
  expect_same_bits(y.tensor, whole.tensor, "in pieces");
}

TEST(StochasticRounding, ShardsMatchUnshardedBits) {
  const Shape shape = {3, 12, 10};
  const TestTensor x = random_tensor(shape, DType::f32, 5), whole(shape, DType::bf16);
  round_stochastically(x.tensor, {kKey}, whole.tensor);
  const std::vector<double> xs = to_doubles(x.tensor), rounded = to_doubles(whole.tensor);
  for (const Shard& shard : {Shard{}, Shard{0, {1, 3}}, Shard{1, {4, 8}}, Shard{1, {3, 12}},
                             Shard{2, {5, 10}}, Shard{2, {4, 8}}}) {
    Parameter parameter;
    parameter.global_shape = parameter.local_shape = shape;
    parameter.shard = shard;
    if (!shard.replicated()) parameter.local_shape.set(shard.dim, shard.range.size());
    const TestTensor piece =
        from_doubles(shard_of(xs, parameter), parameter.local_shape, DType::f32);
    const TestTensor y(parameter.local_shape, DType::bf16);
    round_stochastically(piece.tensor, {kKey, parameter.global_index()}, y.tensor);
    EXPECT_EQ(to_doubles(y.tensor), shard_of(rounded, parameter)) << "dim " << shard.dim;
  }
}

TEST(StochasticRounding, BitsChangeWithStep) {
  const TestTensor x = random_tensor({1000}, DType::f32, 5), a({1000}, DType::bf16),
                   b({1000}, DType::bf16);
  RandomKey next = kKey;
  ++next.step;
  round_stochastically(x.tensor, {kKey}, a.tensor);
  round_stochastically(x.tensor, {next}, b.tensor);
  EXPECT_NE(to_doubles(a.tensor), to_doubles(b.tensor));
}

TEST(StochasticRounding, KeepsSmallUpdatesOnAverage) {
  // Near 1, bf16 has steps of 2⁻⁸: rounding to nearest loses an update of 2⁻¹², stochastic rounding
  // keeps it on average.
  constexpr int64_t kCount = 65536;
  const TestTensor x({kCount}, DType::f32), y({kCount}, DType::bf16);
  for (float& value : x.tensor.span<float>()) value = 1.0f + 0x1p-12f;
  round_stochastically(x.tensor, {kKey}, y.tensor);
  double sum = 0.0;
  for (const double value : to_doubles(y.tensor)) sum += value;
  // One in 32 rounds up, by 2⁻⁷: five standard deviations of the mean.
  const double deviation = 0x1p-7 * std::sqrt((1.0 / 32) * (31.0 / 32) / kCount);
  EXPECT_NEAR(sum / kCount, 1.0 + 0x1p-12, 5 * deviation);
}

TEST(StochasticRounding, RefusesWrongArguments) {
  const TestTensor x({8}, DType::f32), y({8}, DType::bf16), longer({9}, DType::bf16),
      f({8}, DType::f32);
  const TestTensor meta({8}, DType::f32, kMeta);
  round_stochastically(meta.tensor, {kKey}, y.tensor);
  expect_error([&] { round_stochastically(y.tensor, {kKey}, y.tensor); },
               {"round_stochastically", "x", "fp32"});
  expect_error([&] { round_stochastically(x.tensor, {kKey}, f.tensor); },
               {"round_stochastically", "y", "bf16"});
  expect_error([&] { round_stochastically(x.tensor, {kKey}, longer.tensor); },
               {"round_stochastically", "y", "8 elements", "(9)"});
  AdamW settings;
  settings.rounding = {kKey};
  const TestTensor scale({1}, DType::f32), g({8}, DType::f32), m({8}, DType::f32),
      v({8}, DType::f32);
  expect_error(
      [&] { adamw_step(settings, scale.tensor, g.tensor, m.tensor, v.tensor, x.tensor, f.tensor); },
      {"adamw_step", "bf16", "value"});
}

}  // namespace
}  // namespace tessera
