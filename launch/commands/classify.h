#pragma once

#include <CLI/CLI.hpp>

namespace tessera {

/// `tessera classify`: which label a fine-tuned BERT gives a text.
void add_classify_command(CLI::App& app, int& exit_code);

}  // namespace tessera
