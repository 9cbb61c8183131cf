#pragma once

#include <cstddef>

#include "core/tensor.h"
#include "launch/huggingface/tensor_names.h"

namespace tessera {

/// Collects Hugging Face's tensor `part` of a joint tensor of ours, both fp32 in host memory: its
/// part of each group in turn.
void copy_part(const TensorName& name, size_t part, const Tensor& ours, const Tensor& theirs);

}  // namespace tessera
