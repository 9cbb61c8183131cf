#include "launch/checkpoint/format/stored_values.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"

namespace tessera {
namespace {

/// IEEE 754 binary16: a sign, 5 bits of exponent with bias 15, 10 bits of fraction.
struct Half {
  uint16_t bits;

  explicit operator float() const {
    const uint32_t sign = (uint32_t{bits} & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 0) {  // zero or subnormal: fraction × 2^-24
      const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
      return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
    }
    const uint32_t widened = exponent == 0x1f ? 0xffu : exponent - 15 + 127;
    return std::bit_cast<float>(sign | (widened << 23) | (fraction << 13));
  }
};
static_assert(sizeof(Half) == 2);

// Stored bytes may be unaligned, so elements are read with memcpy.
template <typename From>
void widen(const std::byte* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + static_cast<size_t>(i) * sizeof(From), sizeof(From));
    to[i] = static_cast<float>(value);
  }
}

}  // namespace

void widen_to_float(DType dtype, const std::byte* from, float* to, int64_t count) {
  switch (dtype) {
    case DType::f32:
      if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::bf16:
      return widen<bfloat16>(from, to, count);
    case DType::f64:
      return widen<double>(from, to, count);
    default:
      fail("fp32, bf16 and fp64 can be read as fp32, but not {}", to_string(dtype));
  }
}

void widen_half_to_float(const std::byte* from, float* to, int64_t count) {
  widen<Half>(from, to, count);
}

}  // namespace tessera
