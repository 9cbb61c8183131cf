#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Encodes bytes as base64 (RFC 4648, section 4): A-Z a-z 0-9 + /, padded with = to a multiple of
/// 4.
std::string to_base64(std::string_view bytes);

/// Decodes base64. Accepts only the canonical encoding. Throws, naming `source`, if `text` is
/// invalid.
std::string from_base64(std::string_view text, const std::string& source);

}  // namespace tessera
