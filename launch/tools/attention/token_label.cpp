#include "launch/tools/attention/token_label.h"

#include <fmt/format.h>

#include <cstdint>

#include "launch/support/text/utf8.h"

namespace tessera {
namespace {

/// Characters that have no width, or change the direction or shape of others.
bool is_invisible(uint32_t code) {
  return (code >= 0x80 && code < 0xA0) || code == 0xAD || code == 0x61C || code == 0x180E ||
         (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF ||
         (code >= 0xFFF0 && code < 0xFFFC) || code >= 0xE0000;
}

std::string shown(const Utf8Character& character) {
  if (!character.valid) return fmt::format("\\x{:02X}", character.code);
  switch (character.code) {
    case ' ':
      return "␣";
    case '\n':
      return "⏎";
    case '\t':
      return "⇥";
    case 0x7F:
      return "␡";
    default:
      break;
  }
  if (character.code < 0x20) {  // its picture: U+2400 onward, "␀" for 0
    return {'\xE2', '\x90', static_cast<char>(0x80 + character.code)};
  }
  if (is_invisible(character.code)) return fmt::format("U+{:04X}", character.code);
  return std::string(character.bytes);
}

}  // namespace

std::string token_label(std::string_view text, size_t most) {
  std::string result;
  size_t count = 0;
  for_each_utf8_character(text, [&](const Utf8Character& character) {
    ++count;
    if (count <= most) result += shown(character);
    if (count == most + 1) result += "…";
  });
  return result;
}

}  // namespace tessera
