#include "launch/support/text/terminal_text.h"

#include <fmt/format.h>

#include <utility>

#include "launch/support/text/utf8.h"

namespace tessera {
namespace {

/// Embeddings, overrides and isolates (https://trojansource.codes).
bool reverses_text(uint32_t code) {
  return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string escaped(std::string_view text) {
  std::string shown;
  for_each_utf8_character(text, [&](const Utf8Character& character) {
    const uint32_t code = character.code;
    const bool stays = code == '\n' || code == '\t';
    if (!character.valid || (code < 0x20 && !stays)) {
      shown += fmt::format("\\x{:02x}", code);
    } else if ((code >= 0x7F && code < 0xA0) || reverses_text(code)) {
      shown += fmt::format("\\u{:04x}", code);
    } else {
      shown += character.bytes;
    }
  });
  return shown;
}

}  // namespace

std::string TerminalText::add(std::string_view piece) {
  const std::string text = std::exchange(begun_, {}).append(piece);
  const size_t whole = text.size() - incomplete_utf8(text);
  begun_ = text.substr(whole);
  return escaped(std::string_view(text).substr(0, whole));
}

std::string for_terminal(std::string_view text) { return escaped(text); }

}  // namespace tessera
