#pragma once

#include <CLI/CLI.hpp>

namespace tessera {

/// `tessera fill-mask`: what a trained BERT would put in place of [MASK].
void add_fill_mask_command(CLI::App& app, int& exit_code);

}  // namespace tessera
