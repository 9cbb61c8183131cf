#pragma once

#include <cudnn_frontend.h>

#include <cstdint>
#include <unordered_map>

/// What cuDNN's emulation computes: attention by the textbook, in double precision, from what a
/// graph says of its tensors and nothing else.
namespace emulator {

using CudnnTensor = std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>;
using CudnnPointers = std::unordered_map<int64_t, void*>;

int64_t size_of(cudnn_frontend::DataType_t type);

/// Runs one operation, with device memory in reach. Rows that are nobody's (beyond a sequence's
/// length, up to where the next begins) and rows of out and statistics that see nothing become NaN:
/// what cuDNN gives for these is written nowhere. Ends the process where lengths or offsets do not
/// fit their tensors.
void run_cudnn_attention(const cudnn_frontend::graph::AttentionOperation& operation,
                         const CudnnPointers& pointers);

}  // namespace emulator
