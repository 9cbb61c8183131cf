#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/support/same_on_ranks.h"

namespace tessera {

/// What is printed of an error in the command line: what was wrong, the nearest command or option
/// where a name was not known, and which help to ask for. For CLI::App::failure_message.
std::string usage_error(const CLI::App* app, const CLI::Error& error);

/// The command and its options that were given, by name, but for those that are named in `except`:
/// what all ranks of a world must have in common.
std::vector<NamedValue> command_line_of(const CLI::App& command,
                                        const std::vector<std::string>& except = {});

/// Accepts integers from `least` on, and says so of others.
CLI::Validator whole_number_from(int64_t least);

}  // namespace tessera
