#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "launch/config/run_config.h"
#include "launch/config/write_config.h"
#include "launch/train/trainer.h"

namespace tessera {

/// Creates run.dir and checks that it is writable. On rank 0 only.
void make_run_folder(const RunConfig& config);

/// Writes RUN/config.yaml. On rank 0 only, after all checks of the run have passed.
void write_run_config(const RunConfig& config, const KeyOrigins& origins = {});

/// Sets the trainer's weights as checkpoint.resume and checkpoint.from say: from the newest intact
/// checkpoint of the run, otherwise from `from`, otherwise initial ones. Returns a sentence about
/// it; calls `report` with each checkpoint it skipped, and why. Throws, and changes no file, if it
/// must not continue from the contents of run.dir. With `before_step`, to compute that step again,
/// uses only earlier checkpoints, and starts as the run did if there are none. Collective.
std::string start_or_resume(const RunConfig& config, Trainer& trainer, Communicator& world,
                            const std::function<void(std::string)>& report,
                            std::optional<int64_t> before_step = {});

}  // namespace tessera
