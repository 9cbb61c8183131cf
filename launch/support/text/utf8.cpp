#include "launch/support/text/utf8.h"

#include <algorithm>
#include <cstring>

namespace tessera {

namespace {

/// The length of the character that begins with this byte; 0 if none does.
size_t length_of(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  return lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
}

bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

Utf8Character first_utf8_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  const size_t length = length_of(lead);
  const Utf8Character invalid{text.substr(0, 1), lead, false};
  if (length == 0 || text.size() < length) return invalid;
  uint32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(byte(i))) return invalid;
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return invalid;
  return {text.substr(0, length), code, true};
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    uint64_t word = 0;
    if (text.size() >= sizeof(word)) {
      std::memcpy(&word, text.data(), sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {  // ASCII
        text.remove_prefix(sizeof(word));
        continue;
      }
    }
    const Utf8Character character = first_utf8_character(text);
    if (!character.valid) return false;
    text.remove_prefix(character.bytes.size());
  }
  return true;
}

size_t incomplete_utf8(std::string_view text) {
  constexpr size_t kMost = 3;
  for (size_t count = 1; count <= std::min(kMost, text.size()); ++count) {
    const auto byte = static_cast<uint8_t>(text[text.size() - count]);
    if (!is_continuation(byte)) return length_of(byte) > count ? count : 0;
  }
  return 0;
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  for_each_utf8_character(text, [&](const Utf8Character& character) {
    result += character.valid ? character.bytes : "\uFFFD";
  });
  return result;
}

}  // namespace tessera
