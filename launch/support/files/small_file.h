#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

/// Reads a whole file of at most `most_bytes`. Links to devices, growing files and pipes neither
/// fill the memory nor hang: a pipe is read if it has a writer within a second. Throws, naming the
/// file and the reason.
std::string read_small_file(const std::string& path, size_t most_bytes);

/// Throws, naming the file and what to do, if `text` is that of a pointer of Git LFS.
void refuse_lfs_pointer(const std::string& path, std::string_view text);

/// The first bytes of a regular file, at most `most_bytes`; "" if it cannot be read.
std::string begin_of_file(const std::string& path, size_t most_bytes);

}  // namespace tessera
