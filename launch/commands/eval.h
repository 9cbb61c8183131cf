#pragma once

namespace CLI {
class App;
}

namespace tessera {

/// Adds `eval`, which prints what a trained model is worth on some data, on one rank or on the
/// ranks that mpirun started:
///
///     tessera eval --checkpoint RUN_OR_STEP [--data PREFIX | --part train|eval|test]
///                  [--config CONFIG] [--set KEY=VALUE] [--max-samples N] [--tensor K]
///                  [--micro-batch N] [--json] [--dump FILE.safetensors]
///                  [--device auto|cpu|cuda] [--backend auto|nccl|mpi]
///
/// When it is parsed, `exit_code` is set.
void add_eval_command(CLI::App& app, int& exit_code);

}  // namespace tessera
