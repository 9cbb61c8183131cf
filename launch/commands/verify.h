#pragma once

#include <CLI/CLI.hpp>

namespace tessera {

/// `tessera verify PATH`: reads a checkpoint, or all of a run's, against the checksums and prints a
/// line for each. Throws, so that the program's exit status is not zero, if one is damaged or there
/// is none.
void add_verify_command(CLI::App& app);

}  // namespace tessera
