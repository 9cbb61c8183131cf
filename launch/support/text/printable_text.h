#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// `bytes` as UTF-8 that can be shown: what is not UTF-8, and characters that have no picture, byte
/// by byte as "\x0a". Spaces stay.
std::string printable(std::string_view bytes);

}  // namespace tessera
