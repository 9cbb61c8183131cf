#include "launch/tools/attention/token_label.h"

#include <fmt/format.h>

#include <cstdint>

namespace tessera {
namespace {

/// A character of a text, or an invalid byte.
struct Character {
  std::string_view bytes;
  uint32_t code = 0;
  bool valid = false;
};

/// The first character of a text that is not empty (RFC 3629: no overlong forms, no surrogates).
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  const Character invalid{text.substr(0, 1), lead, false};
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

template <typename Visit>
void for_each_character(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const Character character = first_character(text);
    visit(character);
    text.remove_prefix(character.bytes.size());
  }
}

/// Characters that have no width, or change the direction or shape of others.
bool is_invisible(uint32_t code) {
  return (code >= 0x80 && code < 0xA0) || code == 0xAD || code == 0x61C || code == 0x180E ||
         (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF ||
         (code >= 0xFFF0 && code < 0xFFFC) || code >= 0xE0000;
}

std::string shown(const Character& character) {
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

std::string valid_utf8(std::string_view text) {
  std::string result;
  for_each_character(text, [&](const Character& character) {
    result += character.valid ? character.bytes : "\uFFFD";
  });
  return result;
}

std::string token_label(std::string_view text, size_t most) {
  std::string result;
  size_t count = 0;
  for_each_character(text, [&](const Character& character) {
    ++count;
    if (count <= most) result += shown(character);
    if (count == most + 1) result += "…";
  });
  return result;
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace tessera
