#pragma once

namespace CLI {
class App;
}

namespace tessera {

/// Adds `inspect`, which says what a checkpoint, run, dataset, tokenizer or safetensors file is:
///
///     tessera inspect PATH [--tokenizer SPEC] [--documents N] [--text TEXT]
void add_inspect_command(CLI::App& app);

}  // namespace tessera
