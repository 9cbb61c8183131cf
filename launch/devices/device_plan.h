#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/config/run_config.h"

namespace tessera {

/// What a rank knows of the GPUs that it may use.
struct RankGpus {
  std::string host;
  /// Where each GPU that it can use is in its host, in the rank's own order.
  std::vector<std::string> addresses;
  std::string why_none;  ///< in words, where there is none
};

/// What this program was built with.
struct GpuBuild {
  bool cuda = false;
  bool nccl = false;
};

/// On what each rank computes, and how tensors of GPUs travel.
struct DevicePlan {
  bool on_gpus = false;
  bool nccl = false;
  std::vector<int> gpu_of_rank;  ///< place among each rank's addresses; empty on CPUs
  int gpus = 0;                  ///< that are used, over all hosts
  int hosts = 0;
  /// What was asked for as `auto` and is not the best that there is, and why: a sentence for the
  /// start-up summary, or "".
  std::string note;

  bool operator==(const DevicePlan&) const = default;
};

/// Chooses for all ranks at once, by what each knows; every rank comes to the same plan. The ranks
/// of a host take its GPUs in turn: each the one that the fewest before it have, so that ranks
/// which see the same GPUs share them evenly, and ranks which a launcher has bound to different
/// ones take their own. NCCL takes one rank a GPU; a single rank needs no NCCL unless it is asked
/// for.
///
/// Throws, naming hosts and what to choose instead, if what was asked for can not be had, or if
/// only some of the ranks have a GPU.
DevicePlan plan_devices(DeviceChoice device, Backend backend, GpuBuild build,
                        std::span<const RankGpus> ranks);

/// RankGpus as text, to send it, and back.
std::string to_string(const RankGpus& gpus);
RankGpus parse_rank_gpus(const std::string& text);

}  // namespace tessera
