#pragma once

#include <CLI/CLI.hpp>

namespace tessera {

/// Adds `tessera export`, which writes a checkpoint in Hugging Face's format.
void add_export_command(CLI::App& app);

}  // namespace tessera
