#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// What the command line says of a run beside its config.
struct TrainOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;  ///< "section.key=value"
  /// Saves and ends after this step, as a stopped run would, with everything else (the learning
  /// rate's schedule above all) as for the whole run.
  std::optional<int64_t> stop_at;
};

/// The whole of `tessera train` on one rank: configuration, groups, data, start or resume, steps
/// with evaluations, log lines and checkpoints. Collective. Errors that every rank can know are
/// SharedErrors. SIGTERM, SIGINT and SIGUSR1 end the run after the step at hand with a checkpoint.
void run_training(const TrainOptions& options, Communicator& world);

}  // namespace tessera
