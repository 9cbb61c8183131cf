#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/error.h"

namespace tessera {

/// bfloat16: the upper half of an fp32, rounded to nearest even.
struct bfloat16 {
  uint16_t bits;

  bfloat16() = default;
  explicit bfloat16(float value) : bits(round(value)) {}
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }

 private:
  static uint16_t round(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    // A NaN whose payload sits in the lower half must not round to infinity.
    const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
    return static_cast<uint16_t>(is_nan ? (u >> 16) | 0x40u : rounded);
  }
};
static_assert(sizeof(bfloat16) == 2);

enum class DType : uint8_t { f32, bf16, f64, i32, i64, u8 };

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::u8:
      return 1;
  }
  return 0;
}

constexpr std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "fp32";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "fp64";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
    case DType::u8:
      return "uint8";
  }
  return "?";
}

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, bfloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
}

/// Calls `body.template operator()<T>()` with T = float or bfloat16; throws on any other dtype.
template <typename Body>
decltype(auto) dispatch_float(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::bf16:
      return body.template operator()<bfloat16>();
    default:
      fail("this operation supports fp32 and bf16, but got {}", to_string(dtype));
  }
}

/// Calls body(value) with `value` converted to the element type of `dtype`.
template <typename Body>
void dispatch_value(DType dtype, double value, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return body(static_cast<float>(value));
    case DType::bf16:
      return body(bfloat16(static_cast<float>(value)));
    case DType::f64:
      return body(value);
    case DType::i32:
      return body(static_cast<int32_t>(value));
    case DType::i64:
      return body(static_cast<int64_t>(value));
    case DType::u8:
      return body(static_cast<uint8_t>(value));
  }
}

}  // namespace tessera
