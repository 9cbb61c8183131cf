#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/exit_code.h"
#include "launch/train/training_loop.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Command-line options of a run, besides its config.
struct TrainOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;  ///< "section.key=value"
  /// Saves and ends after this step, as if the run were stopped. Everything else, above all the
  /// learning-rate schedule, is as for the whole run.
  std::optional<int64_t> stop_at;
};

/// Runs `tessera train` on one rank: configuration, groups, data, start or resume, and steps with
/// evaluations, logging and checkpoints. SIGTERM, SIGINT and SIGUSR1 end the run with a checkpoint
/// after the current step. Returns why the run ends, the same on all ranks. Throws errors known to
/// all ranks as SharedError. Collective.
ExitCode run_training(const TrainOptions& options, Communicator& world, const RunHooks& hooks = {});

}  // namespace tessera
