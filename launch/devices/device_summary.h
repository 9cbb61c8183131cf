#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "launch/devices/device_plan.h"

namespace tessera {

/// The GPU that a rank computes on.
struct RankGpu {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  size_t bytes = 0;  ///< its memory
  std::string host = {};
  int index = 0;            ///< in the rank's own numbering
  int multiprocessors = 0;  ///< SMs
};

/// The device lines of the start-up summary. `transport` describes how tensors travel. If the GPUs
/// differ, each rank's GPU has its own line.
///
///     4 ranks on 4 GPUs: NVIDIA H100 80GB HBM3, 79.2 GiB each; NCCL 2.28.9
///       ranks 0 to 3 on node1: GPU 0, 1, 2, 3
///
///     1 rank on 1 GPU: GPU 0, NVIDIA H200, 139.8 GiB; self, staged
///
///     2 ranks on 2 GPUs; mpi, staged
///       rank 0 on node1: GPU 0, NVIDIA A100-SXM4-80GB, 79.2 GiB
///       rank 1 on node1: GPU 1, NVIDIA H200, 139.8 GiB
///
///     4 ranks on CPUs; mpi
///
/// `gpus` has one entry per rank; it is empty on CPUs.
std::string device_summary(const DevicePlan& plan, int ranks, std::span<const RankGpu> gpus,
                           const std::string& transport);

/// Converts RankGpu to text for sending, and back.
std::string to_string(const RankGpu& gpu);
RankGpu parse_rank_gpu(const std::string& text);

}  // namespace tessera
