#pragma once

#include <cudnn_frontend.h>

#include "tests/emulator/cudnn/attention.h"

/// cuDNN's documented requirements for attention.
namespace emulator {

/// Returns the tensors of an operation that exist in memory, each once, including ragged offsets.
std::vector<CudnnTensor> tensors_of(const cudnn_frontend::graph::AttentionOperation& operation);

/// Throw an error_t. The first checks that a graph is complete and consistent, the second that
/// cuDNN has an engine for it on GPUs of compute capability `sm_version` / 10.
void require_whole(const cudnn_frontend::graph::AttentionOperation& operation);
void require_supported(const cudnn_frontend::graph::AttentionOperation& operation, int sm_version);

/// Throws an error_t unless `pointers` has an aligned address in GPU memory for each tensor, and no
/// others.
void require_pointers(const cudnn_frontend::graph::AttentionOperation& operation,
                      const CudnnPointers& pointers);

/// Throws an error_t unless [data, data + bytes) is GPU memory.
void require_device_memory(const void* data, int64_t bytes, const std::string& what);

}  // namespace emulator
