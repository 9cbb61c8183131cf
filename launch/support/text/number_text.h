#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// Parses decimal digits with an optional sign and exponent: `12`, `-3`, `1e6`. Returns nothing for
/// other text (fractions, underscores, hexadecimal, leading zeros) and beyond 64 bits.
std::optional<int64_t> parse_integer(std::string_view text);

/// Parses a decimal number: `1`, `0.5`, `3.0e-4`. Returns nothing for other text (infinities, NaN,
/// underscores, hexadecimal, leading zeros) and for values outside the range of a double.
std::optional<double> parse_number(std::string_view text);

/// Returns the shortest decimal number that parse_number() reads back as the same double. It always
/// has a point, and its exponent a sign, so that YAML 1.1 readers (PyYAML) also parse it as a
/// number.
std::string number_text(double value);

}  // namespace tessera
