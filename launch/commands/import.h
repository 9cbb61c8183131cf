#pragma once

#include <CLI/CLI.hpp>

namespace tessera {

/// Adds `tessera import`, which makes a checkpoint of a folder in Hugging Face's format.
void add_import_command(CLI::App& app);

}  // namespace tessera
