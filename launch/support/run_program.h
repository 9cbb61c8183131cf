#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// Runs a program, found in PATH, with `input` as its standard input, and returns its standard
/// output; what it writes to standard error is lost. nullopt if there is no such program. The
/// program must read all of its input before it writes more than a few KiB. Throws, naming it, if
/// it fails, writes more than 16 MiB or is not done after `limit`, when it is killed.
std::optional<std::string> run_program(const std::vector<std::string>& words,
                                       const std::string& input, std::chrono::seconds limit);

}  // namespace tessera
