#pragma once

#include <string_view>

namespace tessera {

/// Return the part of UTF-8 text without white space at its start, its end or both, as
/// str.lstrip(), str.rstrip() and str.strip() of Python do.
std::string_view trimmed_left(std::string_view text);
std::string_view trimmed_right(std::string_view text);
std::string_view trimmed(std::string_view text);

}  // namespace tessera
