#include "launch/support/text/number_text.h"

#include <charconv>

namespace tessera {
namespace {

/// Removes and returns the digits at the start of `text`.
std::string_view take_digits(std::string_view& text) {
  const size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

bool take_any_of(std::string_view& text, std::string_view characters) {
  if (text.empty() || characters.find(text[0]) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

/// YAML 1.1 reads 010 as eight, so it is an error here.
bool has_leading_zero(std::string_view digits) { return digits.size() > 1 && digits[0] == '0'; }

/// std::from_chars does not accept a plus sign.
std::string_view without_plus(std::string_view text) {
  return text.substr(0, 1) == "+" ? text.substr(1) : text;
}

bool is_number(std::string_view text) {
  take_any_of(text, "+-");
  const std::string_view whole = take_digits(text);
  if (has_leading_zero(whole)) return false;
  bool has_digits = !whole.empty();
  if (take_any_of(text, ".")) has_digits |= !take_digits(text).empty();
  if (!has_digits) return false;
  if (take_any_of(text, "eE")) {
    take_any_of(text, "+-");
    if (take_digits(text).empty()) return false;
  }
  return text.empty();
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
  const std::string_view mantissa = text.substr(0, text.find_first_of("eE"));
  std::string_view rest = mantissa;
  take_any_of(rest, "+-");
  const std::string_view digits = take_digits(rest);
  if (digits.empty() || !rest.empty() || has_leading_zero(digits)) return std::nullopt;

  int64_t value = 0;
  const std::string_view number = without_plus(mantissa);
  if (std::from_chars(number.data(), number.data() + number.size(), value).ec != std::errc{}) {
    return std::nullopt;
  }

  rest = text.substr(mantissa.size());
  if (!take_any_of(rest, "eE")) return value;
  take_any_of(rest, "+");
  const std::string_view power = take_digits(rest);
  int zeros = 0;
  if (power.empty() || !rest.empty() ||
      std::from_chars(power.data(), power.data() + power.size(), zeros).ec != std::errc{}) {
    return std::nullopt;
  }
  for (; zeros > 0 && value != 0; --zeros) {
    if (__builtin_mul_overflow(value, int64_t{10}, &value)) return std::nullopt;
  }
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  if (!is_number(text)) return std::nullopt;
  const std::string_view number = without_plus(text);
  double value = 0.0;
  if (std::from_chars(number.data(), number.data() + number.size(), value).ec != std::errc{}) {
    return std::nullopt;
  }
  return value;
}

std::string number_text(double value) {
  char buffer[32];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  const std::string text(buffer, result.ptr);
  const size_t e = std::min(text.find('e'), text.size());
  const std::string mantissa = text.substr(0, e);
  const bool has_point = mantissa.find_first_not_of("-0123456789") != std::string::npos;
  std::string exponent = text.substr(e);  // as in e-05: to_chars writes two digits
  if (exponent.size() > 2 && exponent[2] == '0') exponent.erase(2, 1);
  return mantissa + (has_point ? "" : ".0") + exponent;
}

}  // namespace tessera
