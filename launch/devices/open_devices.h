#pragma once

#include <memory>
#include <string>

#include "core/device.h"
#include "launch/config/sections.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Devices that a command asks for.
struct DeviceRequest {
  DeviceChoice device = DeviceChoice::automatic;
  Backend backend = Backend::automatic;
  bool deterministic = true;  ///< sums of all ranks have the same bits each time
  std::string nccl_log = {};  ///< where rank 0's NCCL describes its connections; empty: nowhere
};

/// The device a rank computes on, and its connections.
struct OpenedDevices {
  Device device = kCpu;
  int gpus = 0;  ///< GPUs in use by all ranks
  /// All ranks, for tensors of `device` and of the host. Pass it to make_parallel_groups. Destroy
  /// it after its groups and before MPI.
  std::unique_ptr<Communicator> world;
  /// For the start-up summary; the same on all ranks:
  ///
  ///     4 ranks on 4 GPUs: NVIDIA H100 80GB HBM3, 79.2 GiB each; NCCL 2.28.9
  ///       ranks 0 to 3 on node1: GPU 0, 1, 2, 3
  std::string summary;
  /// Why `device` is not what `auto` prefers, and which of this rank's GPUs are unused and why, or
  /// "".
  std::string note;
};

/// Chooses every rank's device (plan_devices), selects it for the calling thread
/// (cuda::use_device, and use_multiprocessors with the fewest that any rank's GPU has), and
/// connects the ranks. `world` is the host's communicator. Collective. Call it once, before any GPU
/// allocation. If a requested device is not available, all ranks throw a SharedError.
OpenedDevices open_devices(const DeviceRequest& request, Communicator& world);

}  // namespace tessera
