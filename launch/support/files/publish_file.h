#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// Writes a file, whose folder is created if necessary, and replaces an existing one at once
/// (StagedFile): readers see the old or the new file. Throws, naming the path and the reason.
void publish_file(const std::string& path, std::string_view text);

}  // namespace tessera
