#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "launch/train/memory/memory_plan.h"

namespace tessera {

/// The memory of a GPU that a plan does not count: CUDA's own, NCCL's, and the workspaces of ops
/// and libraries, of which cuDNN's may take 1 GiB.
inline constexpr size_t kUnplannedBytes = size_t{2} << 30;

/// Why a plan for micro-batches of `micro_batch` does not fit into `free_bytes` of a GPU, line by
/// line, and the largest micro-batch that would, by `plan_for`; "" if it fits.
std::string why_no_room(const MemoryPlan& plan, size_t free_bytes, int64_t micro_batch,
                        const std::function<MemoryPlan(int64_t micro_batch)>& plan_for);

}  // namespace tessera
