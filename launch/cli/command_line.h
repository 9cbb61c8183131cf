#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace tessera {

/// What is printed of an error in the command line: what was wrong, the nearest command or option
/// where a name was not known, and which help to ask for. For CLI::App::failure_message.
std::string usage_error(const CLI::App* app, const CLI::Error& error);

/// Accepts integers from `least` on, and says so of others.
CLI::Validator whole_number_from(int64_t least);

}  // namespace tessera
