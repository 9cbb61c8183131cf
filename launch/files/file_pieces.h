#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The most bytes that for_each_piece() holds of a file.
inline constexpr size_t kPieceBytes = size_t{1} << 20;

/// Calls `body` with each piece of a file, or a pipe, from begin to end. A piece is valid only
/// during the call. Throws, naming the file and the reason, if it can not be opened or read.
void for_each_piece(const std::string& path, const std::function<void(std::string_view)>& body);

/// Throws unless all files can be opened to be read and none is a folder: names each that can not,
/// and why, after `who`.
void check_readable(const std::vector<std::string>& paths, std::string_view who);

}  // namespace tessera
