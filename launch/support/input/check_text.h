#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Throws, naming the file and the kind of its content, if the start of a file is that of an
/// archive, an image, a program or another file that is no text.
void check_text(const std::string& path, std::string_view start);

}  // namespace tessera
