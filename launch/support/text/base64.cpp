#include "launch/support/text/base64.h"

#include <algorithm>
#include <cstdint>

#include "core/error.h"

namespace tessera {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The 6 bits of a digit, or -1.
int bits_of(char digit) {
  if ('A' <= digit && digit <= 'Z') return digit - 'A';
  if ('a' <= digit && digit <= 'z') return digit - 'a' + 26;
  if ('0' <= digit && digit <= '9') return digit - '0' + 52;
  return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      text += i <= count ? kDigits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::string from_base64(std::string_view text, const std::string& source) {
  require(text.size() % 4 == 0,
          "{}: the length of base64 is a multiple of 4, but this has {} characters", source,
          text.size());
  size_t digits = text.size();
  while (digits > 0 && text.size() - digits < 2 && text[digits - 1] == '=') --digits;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int held = 0;
  for (size_t at = 0; at < digits; ++at) {
    const int digit = bits_of(text[at]);
    require(digit >= 0, "{}: character {} is not a base64 digit", source, at + 1);
    bits = (bits << 6 | static_cast<uint32_t>(digit)) & 0xFFFF;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 0xFF);
  }
  require((bits & ((1U << held) - 1)) == 0, "{}: the last base64 digit has excess bits", source);
  return bytes;
}

}  // namespace tessera
