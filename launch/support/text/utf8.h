#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// A character of a text, or an invalid byte.
struct Utf8Character {
  std::string_view bytes;
  uint32_t code = 0;
  bool valid = false;
};

/// The first character of a text that is not empty (RFC 3629: no overlong forms, no surrogates).
Utf8Character first_utf8_character(std::string_view text);

/// Calls visit(character) for each character of a text.
template <typename Visit>
void for_each_utf8_character(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const Utf8Character character = first_utf8_character(text);
    visit(character);
    text.remove_prefix(character.bytes.size());
  }
}

bool is_valid_utf8(std::string_view text);

/// The number of bytes at the end of a text, 0 to 3, that are the beginning of a character.
size_t incomplete_utf8(std::string_view text);

/// `text` with U+FFFD in place of each byte that is not part of valid UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace tessera
