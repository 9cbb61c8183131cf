#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/support/files/piece_reader.h"

namespace tessera {

/// Calls `body` with the pieces of a file, a pipe or "-" (PieceReader), in order and decompressed.
/// A piece is valid only during the call. Throws, naming the file and the reason, if it cannot be
/// opened or read.
void for_each_piece(const std::string& path, const std::function<void(std::string_view)>& body);

/// Throws unless all paths are readable and none is a folder; none can be an output then
/// (remember_input). The message starts with `who` and
/// lists each unreadable path with the reason.
void check_readable(const std::vector<std::string>& paths, std::string_view who);

/// Expands `patterns` in order. A pattern is a file name, "-" for standard input (at most once), or
/// a glob with *, ? and [...] (glob(7)), whose files are sorted by bytes. Throws, starting with
/// `who` and naming every problem, if a pattern matches no file, and under the conditions of
/// check_readable().
std::vector<std::string> find_inputs(const std::vector<std::string>& patterns,
                                     std::string_view who);

}  // namespace tessera
