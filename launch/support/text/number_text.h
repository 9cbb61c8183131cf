#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// Decimal digits with an optional sign and an optional exponent: `12`, `-3`, `1e6`. Nothing for
/// any other text (fractions, underscores, hexadecimal, leading zeros) and beyond 64 bits.
std::optional<int64_t> parse_integer(std::string_view text);

/// A decimal number: `1`, `0.5`, `3.0e-4`. Nothing for any other text (infinities, NaN,
/// underscores, hexadecimal, leading zeros) and for what a double can not hold.
std::optional<double> parse_number(std::string_view text);

/// The shortest decimal number that parse_number() reads back as the same double. It always has a
/// point, and a sign in its exponent, so that YAML 1.1 readers (PyYAML) take it for a number too.
std::string number_text(double value);

}  // namespace tessera
