#pragma once

#include <string>

#include "launch/config/run_config.h"
#include "launch/train/memory/memory_plan.h"
#include "parallel/process_grid.h"

namespace tessera {

/// What a run says before its first step: ranks and groups, threads, model and parameters, tokens a
/// step, memory a rank line by line. `threads` is what host_threads says of this rank, `devices`
/// what open_devices says of all.
std::string start_summary(const RunConfig& config, const ParallelGroups& groups,
                          const MemoryPlan& memory, const std::string& threads,
                          const std::string& devices);

/// Of that the lines of model, parameters, batch and memory.
std::string size_summary(const RunConfig& config, const ProcessGrid& grid,
                         const MemoryPlan& memory);

}  // namespace tessera
