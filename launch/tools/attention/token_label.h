#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

/// `text` with U+FFFD in place of each byte that is not part of valid UTF-8.
std::string valid_utf8(std::string_view text);

/// A token's display text: spaces, line ends and control characters become visible signs, invalid
/// UTF-8 bytes their value, and characters that would reverse or join the surrounding text their
/// code point. Everything beyond `most` characters becomes "…". UTF-8, not escaped for HTML.
std::string token_label(std::string_view text, size_t most);

/// `text` for HTML, in an element or a quoted attribute: & < > " ' are escaped.
std::string escape_html(std::string_view text);

}  // namespace tessera
