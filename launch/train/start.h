#pragma once

#include <functional>
#include <string>

#include "launch/config/run_config.h"
#include "launch/train/trainer.h"

namespace tessera {

/// Makes run.dir and checks that it can be written. On rank 0 only.
void make_run_folder(const RunConfig& config);

/// Writes RUN/config.yaml. On rank 0 only, once nothing can refuse the run.
void write_run_config(const RunConfig& config);

/// Gives the trainer its weights as checkpoint.resume and checkpoint.from say: the newest whole
/// checkpoint of the run, else the weights of `from`, else initial ones. Returns a sentence on what
/// it did; calls `report` with each checkpoint that it passed over, and why. Throws, and changes no
/// file, where that may not go on from what is in run.dir. Collective.
std::string start_or_resume(const RunConfig& config, Trainer& trainer, Communicator& world,
                            const std::function<void(std::string)>& report);

}  // namespace tessera
