#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/error.h"

namespace tessera {

/// `value` as a `To`; throws if `To` cannot represent it.
template <typename To, typename From>
To narrow(From value) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  const To result = static_cast<To>(value);
  require(static_cast<From>(result) == value && (result < To{}) == (value < From{}),
          "the number {} does not fit into {} bits", value, 8 * sizeof(To));
  return result;
}

/// `numerator / denominator`; throws, naming both, if there is a remainder.
inline int64_t div_exact(int64_t numerator, int64_t denominator, std::string_view numerator_name,
                         std::string_view denominator_name) {
  require(denominator > 0 && numerator % denominator == 0,
          "{} is {}, which {} = {} does not divide evenly", numerator_name, numerator,
          denominator_name, denominator);
  return numerator / denominator;
}

constexpr int64_t ceil_div(int64_t numerator, int64_t denominator) {
  return (numerator + denominator - 1) / denominator;
}

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return ceil_div(value, multiple) * multiple;
}

}  // namespace tessera
