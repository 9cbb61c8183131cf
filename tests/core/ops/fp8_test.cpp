#include "core/ops/fp8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/checked.h"
#include "core/ops/elementwise.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr int kFp8Nan = 0x7f;

/// The number of a code without sign, by the definition of E4M3.
double e4m3_number(int code) {
  const int exponent = code / 8, fraction = code % 8;
  return exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
}

TEST(Fp8, CodesAreThoseOfE4M3) {
  const auto at = [](double x) { return fp8_code(static_cast<float>(x)); };
  for (int code = 0; code < kFp8Nan; ++code) {
    const auto positive = static_cast<uint8_t>(code), negative = static_cast<uint8_t>(code | 0x80);
    EXPECT_EQ(fp8_value(positive), e4m3_number(code));
    EXPECT_EQ(fp8_value(negative), -e4m3_number(code));
    EXPECT_EQ(std::signbit(fp8_value(negative)), true) << "a negative zero, too";
    EXPECT_EQ(at(e4m3_number(code)), positive);
    EXPECT_EQ(at(-fp8_value(positive)), negative);
    if (code + 1 == kFp8Nan) break;
    const auto next = static_cast<uint8_t>(code + 1), even = code % 2 == 0 ? positive : next;
    const auto middle = static_cast<float>((e4m3_number(code) + e4m3_number(code + 1)) / 2.0);
    EXPECT_EQ(fp8_code(middle), even) << code;
    EXPECT_EQ(fp8_code(std::nextafter(middle, 0.0f)), positive) << code;
    EXPECT_EQ(fp8_code(std::nextafter(middle, 1e3f)), next) << code;
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float large : {448.0f, 449.0f, 480.0f, 1e30f, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(fp8_code(large), 0x7e) << large;
    EXPECT_EQ(fp8_code(-large), 0xfe) << large;
  }
  EXPECT_EQ(fp8_code(std::numeric_limits<float>::denorm_min()), 0);
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(fp8_code(bad) & kFp8Nan, kFp8Nan);
    EXPECT_EQ(finite_magnitude(bad), 0.0f);
  }
  EXPECT_TRUE(std::isnan(fp8_value(0x7f)) && std::isnan(fp8_value(0xff)));
}

TEST(Fp8, ScalesAreTheLeastPowersOfTwo) {
  for (const float largest : {448.0f, 449.0f, 1.0f, 1.75f, 1.7501f, 3e-20f, 3e38f}) {
    const Fp8Scale of(largest);
    EXPECT_EQ(of.scale * of.inverse, 1.0f);
    EXPECT_EQ(of.scale, std::ldexp(1.0f, std::ilogb(of.scale)));
    EXPECT_LE(largest * of.inverse, 448.0f);
    EXPECT_GT(largest * of.inverse * 2.0f, 448.0f);
  }
  for (const float tiny : {0.0f, 1e-38f, 1e-45f}) EXPECT_EQ(Fp8Scale(tiny).scale, 0x1p-100f);
}

/// Codes and scales of a tensor, on the host.
struct Fp8Bits {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

struct Fp8TestMatrix {
  TestTensor codes, scales;

  Fp8Matrix matrix() const { return {codes.tensor, scales.tensor}; }
  Fp8Bits on_host() const {
    const OwnedTensor of_codes(codes.tensor.shape(), DType::u8);
    copy(codes.tensor, of_codes.tensor);
    const auto bytes = of_codes.tensor.span<uint8_t>();
    Fp8Bits result{{bytes.begin(), bytes.end()}, {}};
    for (const double scale : to_doubles(scales.tensor)) {
      result.scales.push_back(static_cast<float>(scale));
    }
    return result;
  }
};

Fp8TestMatrix fp8_rows(const Tensor& x) {
  Fp8TestMatrix result{TestTensor(fp8_row_codes(x), DType::u8),
                       TestTensor(fp8_row_scales(x), DType::f32)};
  quantize_fp8_rows(x, result.matrix());
  return result;
}

Fp8TestMatrix fp8_weights(const Tensor& w, MatrixLayout layout = MatrixLayout::rows) {
  const bool by_rows = layout == MatrixLayout::rows;
  const int64_t n = w.dim(by_rows ? 0 : 1), k = w.dim(by_rows ? 1 : 0);
  Fp8TestMatrix result{TestTensor({n, k}, DType::u8),
                       TestTensor(fp8_weight_scales(n, k), DType::f32)};
  quantize_fp8_weights(w, layout, result.matrix());
  return result;
}

/// Rows [i, i + rows) and columns [j, j + columns).
TestTensor fp8_part_of(const Tensor& x, int64_t i, int64_t rows, int64_t j, int64_t columns) {
  const std::vector<double> all = to_doubles(x);
  std::vector<double> part;
  for (int64_t row = i; row < i + rows; ++row) {
    const auto begin = all.begin() + row * x.dim(1) + j;
    part.insert(part.end(), begin, begin + columns);
  }
  return from_doubles(part, {rows, columns}, DType::bf16);
}

/// Numbers whose rows and blocks have different sizes; some are zeros.
TestTensor fp8_numbers(int64_t rows, int64_t columns, uint64_t seed) {
  std::vector<double> values = to_doubles(random_tensor({rows, columns}, DType::f32, seed).tensor);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / columns, block = static_cast<int64_t>(i) / 128;
    values[i] *= block % 5 == 3 ? 0.0 : std::pow(10.0, static_cast<double>(row % 7 - 3));
  }
  return from_doubles(values, {rows, columns}, DType::bf16);
}

/// What codes stand for, row by row, and the code of an element.
struct Fp8Numbers {
  std::vector<double> values;

  Fp8Numbers(const Fp8TestMatrix& matrix, int64_t rows, bool of_rows) {
    const auto [codes, scales] = matrix.on_host();
    const int64_t columns = matrix.codes.tensor.dim(1);
    const Fp8RowScales places(rows, columns);
    for (int64_t i = 0; i < rows * columns; ++i) {
      const int64_t row = i / columns, block = i % columns / kFp8Block;
      const int64_t at =
          of_rows ? places.index(row, block) : row / kFp8Block * fp8_scale_columns(columns) + block;
      values.push_back(static_cast<double>(fp8_value(codes[static_cast<size_t>(i)])) *
                       scales[static_cast<size_t>(at)]);
    }
  }
};

TEST(Fp8, QuantizesPartsLikeTheWhole) {
  constexpr int64_t kRows = 37, kColumns = 384;
  const TestTensor x = fp8_numbers(kRows, kColumns, 1);
  const Fp8Numbers whole(fp8_rows(x.tensor), kRows, true);
  for (const auto& [i, rows, j, columns] :
       {std::array<int64_t, 4>{0, 16, 0, 384}, {5, 29, 0, 384}, {20, 1, 128, 256}}) {
    const TestTensor part = fp8_part_of(x.tensor, i, rows, j, columns);
    const Fp8Numbers found(fp8_rows(part.tensor), rows, true);
    for (int64_t at = 0; at < rows * columns; ++at) {
      const int64_t there = (i + at / columns) * kColumns + j + at % columns;
      ASSERT_EQ(found.values[static_cast<size_t>(at)], whole.values[static_cast<size_t>(there)]);
    }
  }
  const TestTensor w = fp8_numbers(256, 640, 2);
  const Fp8Numbers all(fp8_weights(w.tensor), 256, false);
  const Fp8Numbers turned(fp8_weights(w.tensor, MatrixLayout::columns), 640, false);
  const Fp8Numbers shard(fp8_weights(fp8_part_of(w.tensor, 128, 128, 256, 384).tensor), 128, false);
  for (int64_t i = 0; i < 256; ++i) {
    for (int64_t j = 0; j < 640; ++j) {
      const double here = all.values[static_cast<size_t>(i * 640 + j)];
      ASSERT_EQ(here, turned.values[static_cast<size_t>(j * 256 + i)]);
      if (i < 128 || j < 256) continue;
      ASSERT_EQ(here, shard.values[static_cast<size_t>((i - 128) * 384 + j - 256)]);
    }
  }
}

/// Expects that each number is the nearest one with the scale of its block of so many rows.
void expect_nearest(const Tensor& source, const Fp8Numbers& found, int64_t rows) {
  const std::vector<double> exact = to_doubles(source);
  const int64_t blocks = source.dim(1) / kFp8Block;
  const auto block_of = [&](int64_t i) {
    return static_cast<size_t>(i / source.dim(1) / rows * blocks + i / kFp8Block % blocks);
  };
  std::vector<float> largest(exact.size() / kFp8Block);
  for (int64_t i = 0; i < source.numel(); ++i) {
    const auto size = static_cast<float>(std::abs(exact[static_cast<size_t>(i)]));
    largest[block_of(i)] = std::max(largest[block_of(i)], size);
  }
  for (int64_t i = 0; i < source.numel(); ++i) {
    const Fp8Scale scale(largest[block_of(i)]);
    const auto value = static_cast<float>(exact[static_cast<size_t>(i)]);
    ASSERT_EQ(found.values[static_cast<size_t>(i)],
              static_cast<double>(fp8_value(fp8_code(value * scale.inverse))) * scale.scale);
  }
}

TEST(Fp8, RoundsToTheNearestOfABlock) {
  const TestTensor x = fp8_numbers(19, 256, 3), w = fp8_numbers(256, 384, 4);
  const Fp8TestMatrix of_x = fp8_rows(x.tensor);
  expect_nearest(x.tensor, Fp8Numbers(of_x, 19, true), 1);
  expect_nearest(w.tensor, Fp8Numbers(fp8_weights(w.tensor), 256, false), 128);
  const Fp8Bits bits = of_x.on_host();
  EXPECT_TRUE(std::all_of(bits.codes.begin() + 19 * 256, bits.codes.end(), [](uint8_t code) {
    return code == 0;
  })) << "padding";
}

TEST(Fp8, MultipliesLikeATextbook) {
  constexpr int64_t kColumns = 256, kFeatures = 384;
  const TestTensor w = random_tensor({kFeatures, kColumns}, DType::bf16, 5, 0.1f);
  const Fp8TestMatrix weights = fp8_weights(w.tensor);
  const Fp8Numbers b(weights, kFeatures, false);
  const TestTensor bias = random_tensor({kFeatures}, DType::bf16, 6);
  const std::vector<double> added = to_doubles(bias.tensor);
  for (const int64_t rows : {0, 1, 16, 37, 64}) {
    for (const bool adds : {false, true}) {
      const TestTensor x = random_tensor({rows, kColumns}, DType::bf16, 7);
      const Fp8TestMatrix of_rows = fp8_rows(x.tensor);
      const Fp8Numbers a(of_rows, rows, true);
      const TestTensor y({rows, kFeatures}, DType::bf16);
      linear_fp8(of_rows.matrix(), weights.matrix(), adds ? bias.tensor : Tensor(), y.tensor);
      std::vector<double> expected;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < kFeatures; ++j) {
          double sum = adds ? added[static_cast<size_t>(j)] : 0.0;
          for (int64_t k = 0; k < kColumns; ++k) {
            sum += a.values[static_cast<size_t>(i * kColumns + k)] *
                   b.values[static_cast<size_t>(j * kColumns + k)];
          }
          expected.push_back(sum);
        }
      }
      expect_close(y.tensor, expected, sum_tolerance(DType::bf16, kColumns), "y");
    }
  }
}

TEST(Fp8, KeepsNotFiniteNumbersInTheirRow) {
  std::vector<double> values(20 * 128, 1.0);
  values[3 * 128 + 5] = std::numeric_limits<double>::infinity();
  values[17 * 128] = std::numeric_limits<double>::quiet_NaN();
  const TestTensor x = from_doubles(values, {20, 128}, DType::bf16);
  const TestTensor w = random_tensor({128, 128}, DType::bf16, 8);
  const TestTensor y({20, 128}, DType::bf16);
  linear_fp8(fp8_rows(x.tensor).matrix(), fp8_weights(w.tensor).matrix(), {}, y.tensor);
  const std::vector<double> found = to_doubles(y.tensor);
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t row = i / 128;
    EXPECT_EQ(std::isfinite(found[i]), row != 3 && row != 17) << i;
  }
}

TEST(Fp8, RefusesOtherShapes) {
  const TestTensor x({4, 192}, DType::bf16), wide({4, 128}, DType::f32), w({128, 64}, DType::bf16);
  expect_error([&] { fp8_rows(x.tensor); }, {"must be a multiple of 128"});
  expect_error([&] { fp8_rows(wide.tensor); }, {"bf16"});
  expect_error([&] { fp8_weights(w.tensor); }, {"must be a multiple of 128"});
}

}  // namespace
}  // namespace tessera
