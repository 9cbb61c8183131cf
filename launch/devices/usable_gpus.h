#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A GPU that a rank sees.
struct SeenGpu {
  std::string name;  ///< "NVIDIA A100-SXM4-80GB"
  int major = 0;     ///< compute capability
  int minor = 0;
};

/// Why a build whose kernels were compiled for `architectures` (cuda::compiled_architectures)
/// cannot use the rank's GPU `index`, as half a sentence; nullopt if it can:
///
///     GPU 0, Tesla V100-SXM2-16GB, has compute capability 7.0, but Tessera's kernels need 8.0 or
///     later
///
///     GPU 0, NVIDIA A100-SXM4-80GB, has compute capability 8.0, but this build has code for 90a
///     alone: build with -DCMAKE_CUDA_ARCHITECTURES=80
std::optional<std::string> why_unusable(int index, const SeenGpu& gpu,
                                        std::string_view architectures);

/// The GPUs that a rank can use, and why it cannot use the others.
struct UsableGpus {
  std::vector<int> indices;
  std::string why_not;  ///< one reason per unusable GPU, separated by "; "
};
UsableGpus usable_gpus(std::span<const SeenGpu> seen, std::string_view architectures);

}  // namespace tessera
