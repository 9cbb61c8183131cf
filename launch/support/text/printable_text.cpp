#include "launch/support/text/printable_text.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

namespace tessera {

std::string printable(std::string_view bytes) {
  std::string text;
  for (size_t begin = 0; begin < bytes.size();) {
    size_t end = begin;
    UChar32 c = 0;
    U8_NEXT(bytes.data(), end, bytes.size(), c);
    const std::string_view character = bytes.substr(begin, end - begin);
    if (c == ' ' || (c >= 0 && u_isgraph(c) != 0)) {
      text += character;
    } else {
      for (const char byte : character) {
        text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    begin = end;
  }
  return text;
}

}  // namespace tessera
