#include "launch/devices/gpu_versions.h"

#include <fmt/format.h>

#include "core/cuda/runtime.h"
#include "core/ops/cuda/attention/cudnn_attention.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "parallel/communicators/nccl/nccl_communicator.h"

namespace tessera {

GpuVersions gpu_versions([[maybe_unused]] Device device,
                         [[maybe_unused]] const Communicator& world) {
  GpuVersions versions;
  if constexpr (kHasCuda) {
    if (!device.is_cuda()) return versions;
    versions["GPU"] = cuda::device_kind(device.index).name;
    versions["driver"] = cuda::driver_version();
    versions["cuBLASLt"] = cuda::cublaslt_version();
    if constexpr (cuda::kHasCudnn) versions["cuDNN"] = cuda::cudnn_version();
    if constexpr (kHasNccl) {
      if (world.name() == "nccl") versions["NCCL"] = nccl_version();
    }
  }
  return versions;
}

std::string changed_versions(const GpuVersions& now, const GpuVersions& before) {
  GpuVersions all = now;
  all.insert(before.begin(), before.end());
  const auto of = [](const GpuVersions& versions, const std::string& name) {
    const auto found = versions.find(name);
    return found == versions.end() ? std::string("none") : found->second;
  };
  std::string text;
  for (const auto& entry : all) {
    const std::string& name = entry.first;
    const std::string is = of(now, name), was = of(before, name);
    if (is == was) continue;
    text += fmt::format("{}{} is {} instead of {}", text.empty() ? "" : ", ", name, is, was);
  }
  return text;
}

}  // namespace tessera
