#include "launch/devices/usable_gpus.h"

#include <fmt/format.h>

#include "core/cuda/architectures.h"

namespace tessera {
namespace {

/// The first generation with bf16 tensor cores.
constexpr int kLeastComputeCapability = 8;

}  // namespace

std::optional<std::string> why_unusable(int index, const SeenGpu& gpu,
                                        std::string_view architectures) {
  const std::string what = fmt::format("GPU {}, {}, has compute capability {}.{}, but", index,
                                       gpu.name, gpu.major, gpu.minor);
  if (gpu.major < kLeastComputeCapability) {
    return fmt::format("{} Tessera's kernels need {}.0 or later", what, kLeastComputeCapability);
  }
  if (cuda::any_runs_on(architectures, gpu.major, gpu.minor)) return std::nullopt;
  return fmt::format(
      "{} this build only has code for {}: build with -DCMAKE_CUDA_ARCHITECTURES={}{}", what,
      architectures, gpu.major, gpu.minor);
}

UsableGpus usable_gpus(std::span<const SeenGpu> seen, std::string_view architectures) {
  UsableGpus usable;
  for (size_t i = 0; i < seen.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (const auto why = why_unusable(index, seen[i], architectures)) {
      usable.why_not += (usable.why_not.empty() ? "" : "; ") + *why;
    } else {
      usable.indices.push_back(index);
    }
  }
  return usable;
}

}  // namespace tessera
