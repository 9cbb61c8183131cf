#pragma once

#include <cudnn_frontend.h>

#include <cstdint>
#include <unordered_map>

/// The computation of cuDNN's emulation: textbook attention in double precision, based only on what
/// a graph says about its tensors.
namespace emulator {

using CudnnTensor = std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>;
using CudnnPointers = std::unordered_map<int64_t, void*>;

int64_t size_of(cudnn_frontend::DataType_t type);

/// Runs one operation with device memory accessible. Writes NaN where cuDNN's result is
/// undocumented: rows beyond a sequence's length, up to the next sequence, and rows of out and
/// statistics that see no keys. Ends the process if lengths or offsets do not fit their tensors.
void run_cudnn_attention(const cudnn_frontend::graph::AttentionOperation& operation,
                         const CudnnPointers& pointers);

}  // namespace emulator
