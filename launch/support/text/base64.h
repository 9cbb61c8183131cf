#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Any bytes as text (RFC 4648, section 4): A-Z a-z 0-9 + /, padded with = to a multiple of 4.
std::string to_base64(std::string_view bytes);

/// Back. Strict: each value has one text. Throws, naming `source`, if `text` is none.
std::string from_base64(std::string_view text, const std::string& source);

}  // namespace tessera
