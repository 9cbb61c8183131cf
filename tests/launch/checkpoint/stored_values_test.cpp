#include "launch/checkpoint/format/stored_values.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

float half(uint16_t bits) {
  // At an odd address, as in a file.
  std::byte bytes[3];
  std::memcpy(bytes + 1, &bits, sizeof bits);
  float value = 0.0f;
  widen_half_to_float(bytes + 1, &value, 1);
  return value;
}

/// By the definition: ± fraction × 2^exponent.
double half_by_definition(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(StoredValues, WidensEveryHalfExactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto stored = static_cast<uint16_t>(bits);
    const float value = half(stored);
    const bool finite = (bits & 0x7c00) != 0x7c00;
    if (finite) {
      ASSERT_EQ(static_cast<double>(value), half_by_definition(stored)) << bits;
    } else {
      ASSERT_EQ(std::isnan(value), (bits & 0x3ff) != 0) << bits;
    }
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
  }
  EXPECT_EQ(half(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(half(0x3555), 0.333251953125f);
}

TEST(StoredValues, WidensOtherFloats) {
  const std::vector<double> values = {0.0, -1.5, 1e300, 0.1};
  std::vector<float> out(values.size());
  widen_to_float(DType::f64, reinterpret_cast<const std::byte*>(values.data()), out.data(), 4);
  EXPECT_EQ(out, (std::vector<float>{0.0f, -1.5f, std::numeric_limits<float>::infinity(), 0.1f}));
  const std::vector<bfloat16> narrow = {bfloat16(1.0f), bfloat16(-0.1f)};
  widen_to_float(DType::bf16, reinterpret_cast<const std::byte*>(narrow.data()), out.data(), 2);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], static_cast<float>(bfloat16(-0.1f)));
  test::expect_error([&] { widen_to_float(DType::i32, nullptr, out.data(), 0); }, {"not int32"});
}

}  // namespace
}  // namespace tessera
