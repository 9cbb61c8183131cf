#pragma once

namespace CLI {
class App;
}

namespace tessera {

/// Adds `train`, which runs a configuration on all ranks that mpirun started:
///
///     tessera train CONFIG [--set section.key=value ...] [--stop-at STEP]
///
/// When it is parsed, `exit_code` is set.
void add_train_command(CLI::App& app, int& exit_code);

}  // namespace tessera
