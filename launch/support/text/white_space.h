#pragma once

#include <string_view>

namespace tessera {

/// Returns the part of UTF-8 text without white space at its start and end, as str.strip() of
/// Python does.
std::string_view trimmed(std::string_view text);

}  // namespace tessera
