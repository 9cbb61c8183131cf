#pragma once

namespace CLI {
class App;
}

namespace tessera {

/// Adds `generate`, which continues a prompt with a trained model, on one rank or with the model's
/// heads split over the ranks that mpirun started:
///
///     tessera generate --checkpoint RUN_OR_STEP --prompt TEXT [--max-tokens N] [--temperature X]
///                      [--top-k K] [--top-p P] [--seed S]
///
/// When it is parsed, `exit_code` is set.
void add_generate_command(CLI::App& app, int& exit_code);

}  // namespace tessera
