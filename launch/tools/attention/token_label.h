#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

/// A token's display text: spaces, line ends and control characters become visible signs, invalid
/// UTF-8 bytes their value, and characters that would reverse or join the surrounding text their
/// code point. Everything beyond `most` characters becomes "…". UTF-8, not escaped for HTML.
std::string token_label(std::string_view text, size_t most);

}  // namespace tessera
