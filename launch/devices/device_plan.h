#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/config/sections.h"

namespace tessera {

/// The GPUs that a rank can use.
struct RankGpus {
  std::string host;
  /// The address of each usable GPU within the host, in the rank's own order.
  std::vector<std::string> addresses;
  std::string why_none;  ///< why there is no usable GPU, if `addresses` is empty
};

/// GPU libraries that this program was built with.
struct GpuBuild {
  bool cuda = false;
  bool nccl = false;
  bool nccl_may_share = false;  ///< ranks may share GPUs over NCCL, as only tests do
};

/// The device each rank computes on, and how GPU tensors travel.
struct DevicePlan {
  bool on_gpus = false;
  bool nccl = false;
  std::vector<int> gpu_of_rank;  ///< index into each rank's addresses; empty on CPUs
  int gpus = 0;                  ///< GPUs in use, over all hosts
  int hosts = 0;
  /// Why an `auto` choice is not the best one, as a sentence for the start-up summary, or "".
  std::string note;

  bool operator==(const DevicePlan&) const = default;
};

/// Chooses the devices of all ranks; every rank computes the same plan. The ranks of a host pick
/// GPUs in turn, each the GPU with the fewest ranks so far. Ranks that see the same GPUs therefore
/// share them evenly, and ranks bound to different GPUs by a launcher use their own. NCCL supports
/// one rank per GPU; with `build.nccl_may_share`, ranks use it on request also if they share GPUs.
/// A single rank uses NCCL only on request.
///
/// Throws if a requested device or backend is not available, or if only some ranks have a GPU. The
/// message names the hosts and the alternatives.
DevicePlan plan_devices(DeviceChoice device, Backend backend, GpuBuild build,
                        std::span<const RankGpus> ranks);

/// Converts RankGpus to text for sending, and back.
std::string to_string(const RankGpus& gpus);
RankGpus parse_rank_gpus(const std::string& text);

}  // namespace tessera
