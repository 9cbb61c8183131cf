#include "core/ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr DType kFloats[] = {DType::f32, DType::bf16};
constexpr int64_t kCounts[] = {0, 1, 3, 17, 65, 769, 70001};

TEST(Elementwise, FillSupportsEveryDtype) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32}) {
    const TestTensor tensor({3, 7}, dtype);
    fill(tensor.tensor, -3.0);
    EXPECT_EQ(to_doubles(tensor.tensor), std::vector<double>(21, -3.0)) << to_string(dtype);
  }
  const TestTensor large({70001}, DType::i64), small({5}, DType::u8);
  fill(large.tensor, 0x1p40);
  for (const int64_t value : large.tensor.span<int64_t>()) ASSERT_EQ(value, int64_t{1} << 40);
  fill(small.tensor, 255.0);
  for (const uint8_t value : small.tensor.span<uint8_t>()) ASSERT_EQ(value, 255);
}

TEST(Elementwise, FillRefusesUnrepresentableIntegers) {
  const TestTensor bytes({2}, DType::u8), ints({2}, DType::i32);
  expect_error([&] { fill(bytes.tensor, 256.0); }, {"fill", "256", "uint8"});
  expect_error([&] { fill(bytes.tensor, -1.0); }, {"fill", "-1", "uint8"});
  expect_error([&] { fill(ints.tensor, 0.5); }, {"fill", "0.5", "int32"});
  expect_error([&] { fill(ints.tensor, NAN); }, {"fill", "nan", "int32"});
  expect_error([&] { fill({}, 0.0); }, {"fill", "undefined"});
}

TEST(Elementwise, CopyConvertsBothWays) {
  for (const int64_t n : kCounts) {
    const TestTensor x = random_tensor({n}, DType::f32, 1);
    const TestTensor same({n}, DType::f32), rounded({n}, DType::bf16), back({n}, DType::f32);
    copy(x.tensor, same.tensor);
    expect_same_bits(same.tensor, x.tensor, "fp32 to fp32");
    copy(x.tensor, rounded.tensor);
    expect_same_bits(rounded.tensor, from_doubles(to_doubles(x.tensor), {n}, DType::bf16).tensor,
                     "fp32 to bf16");
    copy(rounded.tensor, back.tensor);
    EXPECT_EQ(to_doubles(back.tensor), to_doubles(rounded.tensor));
    copy(back.tensor, back.tensor);
  }
}

TEST(Elementwise, CopyKeepsInfinitiesAndNans) {
  const float tiny_nan = std::bit_cast<float>(0x7f800001u);
  const TestTensor x({40}, DType::f32), y({40}, DType::bf16);
  fill(x.tensor, INFINITY);
  x.tensor.span<float>()[1] = tiny_nan;
  x.tensor.span<float>()[38] = tiny_nan;
  copy(x.tensor, y.tensor);
  for (size_t i = 0; i < 40; ++i) {
    const auto value = static_cast<float>(y.tensor.span<bfloat16>()[i]);
    EXPECT_EQ(std::isnan(value), i == 1 || i == 38) << i;
    EXPECT_EQ(std::isinf(value), i != 1 && i != 38) << i;
  }
}

TEST(Elementwise, CopySupportsIntegers) {
  const TestTensor ids = random_ints({3, 5}, 0, 100, 1), to({3, 5}, DType::i32);
  copy(ids.tensor, to.tensor);
  expect_same_bits(to.tensor, ids.tensor, "int32");
  const TestTensor floats({3, 5}, DType::f32), other({15}, DType::i32);
  expect_error([&] { copy(ids.tensor, floats.tensor); }, {"copy", "source", "int32"});
  expect_error([&] { copy(ids.tensor, other.tensor); }, {"copy", "destination", "(3, 5)", "(15)"});
}

TEST(Elementwise, AddRoundsOnceAndMayAlias) {
  for (const DType dtype : kFloats) {
    for (const int64_t n : kCounts) {
      for (const int threads : {1, 2, 3}) {
        const ThreadCount count(threads);
        const TestTensor a = random_tensor({n}, dtype, 1), b = random_tensor({n}, dtype, 2);
        const TestTensor out({n}, dtype);
        auto expected = to_doubles(a.tensor);
        const auto other = to_doubles(b.tensor);
        for (size_t i = 0; i < expected.size(); ++i) expected[i] += other[i];
        add(a.tensor, b.tensor, out.tensor);
        expect_close(out.tensor, expected, unit_roundoff(dtype), "out");
        add(a.tensor, b.tensor, a.tensor);
        expect_same_bits(a.tensor, out.tensor, "out in place of a");
        add(b.tensor, b.tensor, b.tensor);
        auto doubled = other;
        for (double& value : doubled) value *= 2.0;
        EXPECT_EQ(to_doubles(b.tensor), doubled) << "out in place of both";
      }
    }
  }
}

TEST(Elementwise, ScaleRoundsOnceAndMayAlias) {
  for (const DType dtype : kFloats) {
    for (const int64_t n : kCounts) {
      const TestTensor x = random_tensor({n}, dtype, 1), y({n}, dtype);
      auto expected = to_doubles(x.tensor);
      for (double& value : expected) value *= 0.125;
      scale(x.tensor, 0.125f, y.tensor);
      EXPECT_EQ(to_doubles(y.tensor), expected);  // a power of two
      scale(x.tensor, 0.3f, y.tensor);
      for (double& value : expected) value *= 8.0 * double{0.3f};
      expect_close(y.tensor, expected, unit_roundoff(dtype), "y");
      scale(x.tensor, 0.3f, x.tensor);
      expect_same_bits(x.tensor, y.tensor, "y in place of x");
    }
  }
  const TestTensor floats({9}, DType::f32), rounded({9}, DType::bf16);
  expect_error([&] { scale(floats.tensor, 2.0f, rounded.tensor); }, {"scale", "y", "bf16", "fp32"});
}

TEST(Elementwise, RefusesWrongArguments) {
  const TestTensor a({4, 8}, DType::bf16, kMeta), b({4, 8}, DType::f32, kMeta);
  fill(a.tensor, 1.0);
  copy(a.tensor, b.tensor);
  add(a.tensor, a.tensor, a.tensor);
  expect_error([&] { add(a.tensor, b.tensor, a.tensor); }, {"add", "b", "bf16", "fp32"});
  const TestTensor x({9}, DType::f32);
  expect_error([&] { copy(x.tensor.slice(0, 8), x.tensor.slice(1, 9)); },
               {"copy", "destination overlaps a part of source"});
}

TEST(Elementwise, AddScaledRoundsOnceAndMayAlias) {
  for (const DType dtype : kFloats) {
    for (const int64_t n : kCounts) {
      const TestTensor x = random_tensor({n}, dtype, 1), y = random_tensor({n}, dtype, 2);
      auto expected = to_doubles(x.tensor);
      const auto other = to_doubles(y.tensor);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = 3.5 * expected[i] - 2.0 * other[i];
      const TestTensor out({n}, dtype), aliased = copy_of(y.tensor);
      add_scaled(3.5f, x.tensor, -2.0f, y.tensor, out.tensor);
      expect_close(out.tensor, expected, 8 * 0x1p-24 + unit_roundoff(dtype), "out");
      add_scaled(3.5f, x.tensor, -2.0f, aliased.tensor, aliased.tensor);
      expect_same_bits(aliased.tensor, out.tensor, "in place");
    }
  }
  const TestTensor x({4}, DType::f32), y({5}, DType::f32);
  expect_error([&] { add_scaled(1.0f, x.tensor, 1.0f, y.tensor, x.tensor); }, {"add_scaled", "y"});
}

TEST(Elementwise, ScalesToUnitNorm) {
  for (const DType dtype : kFloats) {
    const TestTensor x = random_tensor({70001}, dtype, 1), y({70001}, dtype);
    auto expected = to_doubles(x.tensor);
    double squares = 0.0;
    for (const double value : expected) squares += value * value;
    for (double& value : expected) value /= std::sqrt(squares) + 0.5;
    const TestTensor sum({1}, DType::f64);
    sum.tensor.span<double>()[0] = squares;
    scale_to_unit_norm(x.tensor, sum.tensor, 0.5f, y.tensor);
    expect_close(y.tensor, expected, 4 * 0x1p-24 + unit_roundoff(dtype), "y");
    sum.tensor.span<double>()[0] = 0.0;
    fill(x.tensor, 0.0);
    scale_to_unit_norm(x.tensor, sum.tensor, 1e-7f, x.tensor);
    EXPECT_EQ(to_doubles(x.tensor)[7], 0.0);
    expect_error([&] { scale_to_unit_norm(x.tensor, sum.tensor, 0.0f, y.tensor); },
                 {"scale_to_unit_norm", "eps"});
  }
}

}  // namespace
}  // namespace tessera
