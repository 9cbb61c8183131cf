#pragma once

#include <cstddef>

#include "launch/config/run_config.h"
#include "launch/devices/open_devices.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Makes the communicators of `groups`, cuBLASLt and, if `config`'s attention may use it, cuDNN
/// allocate the GPU memory that they keep: each communicator runs its collectives once, and a small
/// product runs. Then returns this rank's even share of the memory that is free on its GPU, or 0 on
/// the CPU. Call it before any rank allocates memory that lasts. Collective.
size_t free_bytes_after_warm_up(const RunConfig& config, const OpenedDevices& devices,
                                const ParallelGroups& groups);

}  // namespace tessera
