#include "core/ops/block_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/checked.h"
#include "core/ops/elementwise.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr CodeMap kMaps[] = {CodeMap::signed_numbers, CodeMap::unsigned_numbers};

struct Quantized {
  explicit Quantized(const Tensor& x, CodeMap map_)
      : map(map_),
        codes({x.numel()}, DType::u8),
        scales({ceil_div(x.numel(), kCodeBlock)}, DType::f32),
        decoded({x.numel()}, DType::f32) {
    quantize_blocks(x, map, codes.tensor, scales.tensor);
    dequantize_blocks(codes.tensor, scales.tensor, map, decoded.tensor);
  }

  CodeMap map;
  TestTensor codes, scales, decoded;
};

std::vector<int> codes_of(const Quantized& quantized) {
  const OwnedTensor host(quantized.codes.tensor.shape(), DType::u8);
  copy(quantized.codes.tensor, host.tensor);
  const auto codes = host.tensor.span<uint8_t>();
  return {codes.begin(), codes.end()};
}

/// Numbers of very different sizes, of the signs of a map, in blocks of which some are zeros, tiny,
/// huge, or have their largest number below 0.
TestTensor numbers_for(CodeMap map, int64_t n, uint64_t seed) {
  std::vector<double> values = to_doubles(random_tensor({n}, DType::f32, seed).tensor);
  const std::vector<double> exponents = to_doubles(random_tensor({n}, DType::f32, seed + 1).tensor);
  constexpr double kSizes[] = {1.0, 0.0, 1e-35, 1e-31, 1e30, -1.0, 3.0};
  for (size_t i = 0; i < values.size(); ++i) {
    const double size = kSizes[i / kCodeBlock % std::size(kSizes)];
    values[i] *= size * std::pow(10.0, exponents[i]);
    if (i % 17 == 0) values[i] = 0.0;
    if (map == CodeMap::unsigned_numbers) values[i] = std::abs(values[i]);
  }
  return from_doubles(values, {n}, DType::f32);
}

TEST(BlockCodes, MapsAreThoseOfBitsandbytes) {
  const CodeTable& of_signed = code_table(CodeMap::signed_numbers);
  const CodeTable& of_unsigned = code_table(CodeMap::unsigned_numbers);
  for (const CodeTable* table : {&of_signed, &of_unsigned}) {
    EXPECT_TRUE(std::ranges::is_sorted(table->value));
    for (int i = 1; i < CodeTable::kCodes; ++i) EXPECT_LT(table->value[i - 1], table->value[i]);
    EXPECT_EQ(table->value[255], 1.0f);
  }
  EXPECT_EQ(of_signed.value[0], -1.0f);
  EXPECT_EQ(of_signed.value[127], 0.0f);
  EXPECT_EQ(of_unsigned.value[0], 0.0f);
  for (int i = 1; i < 127; ++i) EXPECT_EQ(of_signed.value[127 - i], -of_signed.value[127 + i]);
  // Of bitsandbytes.functional.create_dynamic_map(signed=True) and (signed=False).
  EXPECT_FLOAT_EQ(of_signed.value[254], 0.99296875f);
  EXPECT_FLOAT_EQ(of_signed.value[253], 0.97890625f);
  EXPECT_FLOAT_EQ(of_signed.value[128], 5.5e-7f);
  EXPECT_FLOAT_EQ(of_signed.value[129], 3.25e-6f);
  EXPECT_FLOAT_EQ(of_signed.value[130], 7.75e-6f);
  EXPECT_FLOAT_EQ(of_unsigned.value[1], 3.25e-7f);
  EXPECT_FLOAT_EQ(of_unsigned.value[2], 7.75e-7f);
  EXPECT_FLOAT_EQ(of_unsigned.value[254], 0.996484375f);
}

TEST(BlockCodes, TakesTheNearestNumberOfTheMap) {
  for (const CodeMap map : kMaps) {
    const CodeTable& table = code_table(map);
    for (const int64_t n : {1, 255, 256, 257, 5000}) {
      const TestTensor x = numbers_for(map, n, 5);
      const Quantized quantized(x.tensor, map);
      const std::vector<double> values = to_doubles(x.tensor),
                                scales = to_doubles(quantized.scales.tensor),
                                decoded = to_doubles(quantized.decoded.tensor);
      for (size_t i = 0; i < values.size(); ++i) {
        const size_t block = i / kCodeBlock, begin = block * kCodeBlock,
                     end = std::min(values.size(), begin + kCodeBlock);
        double largest = 0.0;
        for (size_t j = begin; j < end; ++j) largest = std::max(largest, std::abs(values[j]));
        ASSERT_EQ(scales[block], largest < 0x1p-100 ? 0.0 : largest);
        double nearest = std::abs(values[i]), found = std::abs(decoded[i] - values[i]);
        if (scales[block] > 0.0) {
          for (const float value : table.value) {
            if (map == CodeMap::unsigned_numbers && value == 0.0f && values[i] > 0.0) continue;
            nearest = std::min(nearest, std::abs(double{value} * largest - values[i]));
          }
          if (map == CodeMap::unsigned_numbers && values[i] > 0.0) {
            ASSERT_GT(decoded[i], 0.0) << values[i];
            nearest = std::max(nearest, 3.25e-7 * largest - values[i]);
          }
        }
        // Roundings of the middle, of the division and of the product.
        ASSERT_LE(found, nearest + 8 * 0x1p-24 * std::abs(values[i])) << i << ": " << values[i];
      }
    }
  }
}

// Half of a part of [0.1, 1] times a power of ten, relative to the smallest number there; a power
// with few parts is for numbers far below the largest of their block.
TEST(BlockCodes, ErrorIsBounded) {
  for (const CodeMap map : kMaps) {
    const TestTensor x = numbers_for(map, 100000, 7);
    const Quantized quantized(x.tensor, map);
    const std::vector<double> values = to_doubles(x.tensor),
                              scales = to_doubles(quantized.scales.tensor),
                              decoded = to_doubles(quantized.decoded.tensor);
    const double parts = map == CodeMap::signed_numbers ? 64.0 : 128.0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double scale = scales[i / kCodeBlock];
      if (scale == 0.0) continue;
      ASSERT_LE(std::abs(decoded[i] - values[i]), 0.45 / parts * 1.1 * scale);
      if (std::abs(values[i]) >= 0.01 * scale) {
        ASSERT_LE(std::abs(decoded[i] - values[i]),
                  1.2 * 0.45 / (parts / 2.0) / 0.1 * std::abs(values[i]));
      }
    }
  }
}

TEST(BlockCodes, EncodingTheDecodedChangesNothing) {
  for (const CodeMap map : kMaps) {
    for (const int64_t n : {1, 257, 70001}) {
      const Quantized once(numbers_for(map, n, 9).tensor, map);
      const Quantized twice(once.decoded.tensor, map);
      EXPECT_EQ(codes_of(once), codes_of(twice));
      expect_same_bits(once.scales.tensor, twice.scales.tensor, "scales");
      expect_same_bits(once.decoded.tensor, twice.decoded.tensor, "numbers");
    }
    // Every code, at scales without a short mantissa.
    for (const double scale : {1.0, 0.1, 1.0 / 3.0, 2.7182818e-20, 3.1e30}) {
      std::vector<double> values;
      for (const float value : code_table(map).value) values.push_back(scale * double{value});
      const Quantized all(from_doubles(values, {256}, DType::f32).tensor, map);
      const std::vector<int> codes = codes_of(all);
      for (int i = 0; i < 256; ++i) EXPECT_EQ(codes[static_cast<size_t>(i)], i) << scale;
    }
  }
}

TEST(BlockCodes, AddressesNeedNoAlignment) {
  constexpr int64_t kSize = 1000;
  for (const CodeMap map : kMaps) {
    const TestTensor x = numbers_for(map, kSize, 11);
    const Quantized expected(x.tensor, map);
    TestTensor numbers({kSize + 1}, DType::f32), codes({kSize + 1}, DType::u8),
        scales({ceil_div(kSize, kCodeBlock)}, DType::f32);
    const Tensor later_numbers = numbers.tensor.slice(1, kSize + 1),
                 later_codes = codes.tensor.slice(1, kSize + 1);
    copy(x.tensor, later_numbers);
    quantize_blocks(later_numbers, map, later_codes, scales.tensor);
    dequantize_blocks(later_codes, scales.tensor, map, later_numbers);
    expect_same_bits(later_numbers, expected.decoded.tensor, "numbers");
  }
}

TEST(BlockCodes, RefusesWrongArguments) {
  const TestTensor x({300}, DType::f32), codes({300}, DType::u8), scales({2}, DType::f32),
      few({1}, DType::f32), short_codes({299}, DType::u8);
  const CodeMap map = CodeMap::signed_numbers;
  expect_error([&] { quantize_blocks(codes.tensor, map, codes.tensor, scales.tensor); },
               {"quantize_blocks", "x must be fp32"});
  expect_error([&] { quantize_blocks(x.tensor, map, short_codes.tensor, scales.tensor); },
               {"quantize_blocks", "codes", "300 elements", "(299)"});
  expect_error([&] { dequantize_blocks(codes.tensor, few.tensor, map, x.tensor); },
               {"dequantize_blocks", "scales", "(2)"});
}

}  // namespace
}  // namespace tessera
