#pragma once

#include <string>

#include "launch/config/run_config.h"
#include "launch/train/memory/memory_plan.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The text printed before the first step: ranks and groups, threads, model and parameters, tokens
/// per step, and the memory of a rank line by line. `threads` comes from host_threads for this
/// rank, `devices` from open_devices for all ranks.
std::string start_summary(const RunConfig& config, const ParallelGroups& groups,
                          const MemoryPlan& memory, const std::string& threads,
                          const std::string& devices);

/// The part of it about model, parameters, batch and memory.
std::string size_summary(const RunConfig& config, const ProcessGrid& grid,
                         const MemoryPlan& memory);

}  // namespace tessera
