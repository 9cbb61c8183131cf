#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Reads a line of standard input, without its end. Returns false if there is none. Throws, naming
/// `command`, if it is too long.
bool read_input_line(std::string_view command, std::string& line);

/// Throws, naming `command`, if the line is longer than one may be.
void check_input_line(std::string_view command, std::string_view line);

/// The next line that `read` finds on the first rank and that is not blank, on all ranks; nullopt
/// at the end. Throws on all ranks or none. Collective.
std::optional<std::string> next_input_line(const std::function<bool(std::string& line)>& read,
                                           Communicator& world);

}  // namespace tessera
