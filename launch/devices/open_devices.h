#pragma once

#include <memory>
#include <string>

#include "core/device.h"
#include "launch/config/run_config.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// What a rank computes on.
struct OpenedDevices {
  Device device = kCpu;
  /// Of the device's memory, what was free at the start, shared evenly by the ranks that use it. 0
  /// on the CPU.
  size_t free_bytes = 0;
  int gpus = 0;  ///< that all ranks use
  /// All ranks, for tensors of `device` and of the host: what make_parallel_groups is to split. It
  /// ends after its groups and before MPI.
  std::unique_ptr<Communicator> world;
  /// For the start-up summary; the same on all ranks:
  ///
  ///     4 ranks on 4 GPUs: NVIDIA H100 80GB HBM3, 79.2 GiB each; NCCL 2.28.9
  ///       ranks 0 to 3 on node1: GPU 0, 1, 2, 3
  std::string summary;
  /// Why it is not what `auto` prefers, and which of this rank's GPUs are not used and why, or "".
  std::string note;
};

/// Chooses every rank's device (plan_devices), makes it the calling thread's (cuda::use_device),
/// and connects the ranks. `world` is the host's communicator. Collective, and to be called once,
/// before anything is allocated on a GPU. What can not be had is a SharedError on all ranks.
OpenedDevices open_devices(DeviceChoice device, Backend backend, Communicator& world);

}  // namespace tessera
