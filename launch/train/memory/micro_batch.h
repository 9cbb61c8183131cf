#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/device.h"
#include "launch/config/run_config.h"
#include "parallel/process_grid.h"

namespace tessera {

/// A value for batch.micro: auto, and why it is not larger.
struct MicroBatch {
  int64_t size = 1;
  std::string reason;
};

/// Returns the largest power of two that divides a data rank's share of batch.global, has at most
/// as many tokens as help speed on such a device, and for which `fits` holds; 1 if none does.
MicroBatch choose_micro_batch(const RunConfig& config, int64_t data_ranks, Device device,
                              const std::function<bool(int64_t micro)>& fits);

/// The choice for a run, the same on every rank: the smallest of the ranks' choices. A rank's
/// memory is `free_bytes` of its GPU, less kUnplannedBytes, or its share of the `available` bytes
/// of its host, if known. Collective.
MicroBatch choose_micro_batch(const RunConfig& config, const ParallelGroups& groups, Device device,
                              size_t free_bytes, std::optional<size_t> available);

}  // namespace tessera
