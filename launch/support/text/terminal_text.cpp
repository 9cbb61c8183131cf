#include "launch/support/text/terminal_text.h"

#include <fmt/format.h>

namespace tessera {

std::string TerminalText::add(std::string_view piece) {
  constexpr unsigned char kDelete = 0x7f, kFirstByteOfC1 = 0xc2;
  std::string shown;
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_c0 = (byte < ' ' && c != '\n' && c != '\t') || byte == kDelete;
    const bool is_c1 = may_be_c1_ && byte >= 0x80 && byte < 0xa0;
    if (is_c0 || is_c1) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
    may_be_c1_ = byte == kFirstByteOfC1;
  }
  return shown;
}

std::string for_terminal(std::string_view text) { return TerminalText().add(text); }

}  // namespace tessera
