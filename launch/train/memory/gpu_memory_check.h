#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "launch/train/memory/memory_plan.h"

namespace tessera {

/// GPU memory that a plan does not count: CUDA's own, NCCL's, and workspaces of ops and libraries.
/// cuDNN's may be 1 GiB.
inline constexpr size_t kUnplannedBytes = size_t{2} << 30;

/// Explains, line by line, why a plan for micro-batches of `micro_batch` does not fit into
/// `free_bytes` of a GPU, and names the largest micro-batch that fits according to `plan_for`;
/// nullopt if the plan fits.
std::optional<std::string> gpu_memory_shortage(
    const MemoryPlan& plan, size_t free_bytes, int64_t micro_batch,
    const std::function<MemoryPlan(int64_t micro_batch)>& plan_for);

}  // namespace tessera
