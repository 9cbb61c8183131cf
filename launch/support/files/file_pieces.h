#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/support/files/piece_reader.h"

namespace tessera {

/// Calls `body` with each piece of a file, a pipe or "-", from begin to end and decompressed
/// (PieceReader). A piece is valid only during the call. Throws, naming the file and the reason, if
/// it can not be opened or read.
void for_each_piece(const std::string& path, const std::function<void(std::string_view)>& body);

/// Throws unless all files can be opened to be read and none is a folder: names each that can not,
/// and why, after `who`.
void check_readable(const std::vector<std::string>& paths, std::string_view who);

/// The files that `patterns` stand for, in their order: each is a file's name, "-" for standard
/// input, at most once, or a pattern with *, ? and [...] (glob(7)), whose files are in the order of
/// their bytes. Throws, naming all that are wrong after `who`, if a pattern stands for no file, or
/// as check_readable().
std::vector<std::string> find_inputs(const std::vector<std::string>& patterns,
                                     std::string_view who);

}  // namespace tessera
