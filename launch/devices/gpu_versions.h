#pragma once

#include <map>
#include <string>

#include "core/device.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// By name, what the bits of a run on GPUs depend on beside Tessera: libraries choose algorithms by
/// their version, the driver and the GPU.
///
///     {"GPU": "NVIDIA H200", "NCCL": "2.28.9", "cuBLASLt": "13.0.2", "cuDNN": "9.19.0",
///      "driver": "580.159.04"}
using GpuVersions = std::map<std::string, std::string>;

/// Those of the calling thread's GPU and of the libraries that this run uses; empty on CPUs.
GpuVersions gpu_versions(Device device, const Communicator& world);

/// "cuBLASLt is 13.1.0 instead of 13.0.2, NCCL is none instead of 2.28.9"; "" if they are equal.
std::string changed_versions(const GpuVersions& now, const GpuVersions& before);

}  // namespace tessera
