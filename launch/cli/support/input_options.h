#pragma once

#include "launch/support/input/input_files.h"

namespace CLI {
class App;
}

namespace tessera {

/// Adds the options of the commands that read text: the files, called `name`, --format, --field and
/// --skip-malformed.
void add_input_options(CLI::App& command, InputOptions& options, const char* name = "--input");

}  // namespace tessera
