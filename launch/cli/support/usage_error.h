#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tessera {

/// The text printed for a command-line error: what was wrong, what to write instead, the usage, and
/// which help to read. An option that other programs have is answered with the one that means it
/// here, with --set, or with another command. `arguments` are the words after the program's name.
std::string usage_error(const CLI::App& app, const CLI::Error& error,
                        const std::vector<std::string>& arguments);

}  // namespace tessera
