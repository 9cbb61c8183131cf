#pragma once

#include "core/flat_layout.h"
#include "launch/config/run_config.h"
#include "parallel/process_grid.h"

namespace tessera {

/// How a run's store is shared: with ZeRO the data ranks share the optimizer's state.
inline FlatCut flat_cut(const RunConfig& config, const ParallelGroups& groups) {
  if (config.parallel.zero == 0) return {};
  return {.owners = groups.dp->size(), .owner = groups.dp->rank()};
}

}  // namespace tessera
