#include "launch/support/text/utf8.h"

#include <cstddef>

namespace tessera {

Utf8Character first_utf8_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  const Utf8Character invalid{text.substr(0, 1), lead, false};
  if (length == 0 || text.size() < length) return invalid;
  uint32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return invalid;
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return invalid;
  return {text.substr(0, length), code, true};
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  for_each_utf8_character(text, [&](const Utf8Character& character) {
    result += character.valid ? character.bytes : "\uFFFD";
  });
  return result;
}

}  // namespace tessera
