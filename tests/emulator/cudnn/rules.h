#pragma once

#include <cudnn_frontend.h>

#include "tests/emulator/cudnn/attention.h"

/// What cuDNN documents of the attention that it takes.
namespace emulator {

/// The tensors of an operation that exist in memory, each once, ragged offsets among them.
std::vector<CudnnTensor> tensors_of(const cudnn_frontend::graph::AttentionOperation& operation);

/// Throws an error_t: first, a graph that is not whole, or contradicts itself; second, what cuDNN
/// has no engine for on GPUs of compute capability `sm_version` / 10.
void require_whole(const cudnn_frontend::graph::AttentionOperation& operation);
void require_supported(const cudnn_frontend::graph::AttentionOperation& operation, int sm_version);

/// Throws an error_t unless `pointers` has an address for each tensor and no other, aligned, and in
/// memory of the GPU.
void require_pointers(const cudnn_frontend::graph::AttentionOperation& operation,
                      const CudnnPointers& pointers);

/// Throws an error_t unless [data, data + bytes) is memory of the GPU.
void require_device_memory(const void* data, int64_t bytes, const std::string& what);

}  // namespace emulator
