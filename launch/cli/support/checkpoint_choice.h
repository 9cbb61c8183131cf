#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// The weights that a command uses.
struct CheckpointChoice {
  std::string run;              ///< its folder, or that of one of its checkpoints
  bool best = false;            ///< that of the lowest evaluation loss
  std::optional<int64_t> step;  ///< without either: the newest intact one
  bool ema = false;             ///< the averaged weights of a run with optimizer.ema_decay
};

/// Adds the required argument RUN, --best, --step and --ema. `choice` must live until the command
/// line has been parsed.
void add_model_argument(CLI::App& command, CheckpointChoice& choice);

/// Adds --best and --step.
void add_step_options(CLI::App& command, CheckpointChoice& choice);

/// The step's folder. Throws if there is none, for `best` also if the checkpoint of the lowest
/// evaluation loss was not kept.
std::filesystem::path resolve(const CheckpointChoice& choice);

/// Returns the first rank's result on every rank: only rank 0 searches and reports. Collective.
std::filesystem::path resolve(const CheckpointChoice& choice, Communicator& world);

}  // namespace tessera
