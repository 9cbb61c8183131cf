#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Returns `bytes` as printable UTF-8. Escapes invalid UTF-8 and unprintable characters byte by
/// byte as "\x0a". Keeps spaces.
std::string printable(std::string_view bytes);

}  // namespace tessera
