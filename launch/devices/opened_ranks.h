#pragma once

#include <cstdint>

#include "launch/devices/open_devices.h"
#include "parallel/communicators/communicator.h"
#include "parallel/grid_shape.h"
#include "parallel/host/host_threads.h"
#include "parallel/process_grid.h"

namespace tessera {

/// This rank's threads, device and groups: the start of whatever computes on ranks.
struct OpenedRanks {
  /// `world`, the host's communicator, must outlive this. Throws on all ranks or none. Call it once
  /// in a process (see open_devices). Collective.
  OpenedRanks(const DeviceRequest& request, const GridShape& shape, Communicator& world);
  OpenedRanks(const OpenedRanks&) = delete;
  OpenedRanks& operator=(const OpenedRanks&) = delete;

  Communicator& world;
  HostThreads threads;
  OpenedDevices devices;
  ParallelGroups groups;
};

/// The shape for replicas of `--tensor` ranks. Throws on all ranks unless it divides their number.
GridShape shape_of_option(int64_t tensor, Communicator& world);

}  // namespace tessera
