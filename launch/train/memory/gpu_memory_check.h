#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "launch/train/memory/memory_plan.h"

namespace tessera {

/// GPU memory that a plan does not count, beyond what is taken when free memory is read
/// (launch/devices/warm_up.h): kernels that CUDA loads at their first launch and their stacks, CUDA
/// graphs, and what allocations lose because the driver hands out 2 MiB at a time. All of these are
/// tens of MiB.
inline constexpr size_t kUnplannedBytes = size_t{512} << 20;

/// As above for an empty GPU, on which the run would also start CUDA, its libraries and NCCL, whose
/// communicators take most of this.
inline constexpr size_t kUnplannedOfEmptyGpu = kUnplannedBytes + (size_t{1536} << 20);

/// Explains, line by line, why a plan for micro-batches of `micro_batch` does not fit into
/// `free_bytes` of a GPU, and names the largest micro-batch that fits according to `plan_for`;
/// nullopt if the plan fits.
std::optional<std::string> gpu_memory_shortage(
    const MemoryPlan& plan, size_t free_bytes, int64_t micro_batch,
    const std::function<MemoryPlan(int64_t micro_batch)>& plan_for);

}  // namespace tessera
