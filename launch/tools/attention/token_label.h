#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

/// `text` with U+FFFD in place of each byte that is not part of valid UTF-8.
std::string valid_utf8(std::string_view text);

/// A token as it is shown: spaces, line ends and control characters become visible signs, bytes
/// that are no UTF-8 their value, and what would turn or join the text around it its code point. Of
/// more than `most` characters the rest is "…". UTF-8, not escaped for HTML.
std::string token_label(std::string_view text, size_t most);

/// `text` for HTML, in an element or a quoted attribute: & < > " ' are escaped.
std::string escape_html(std::string_view text);

}  // namespace tessera
