#pragma once

#include <cstddef>

#include "core/memory.h"
#include "core/tensor.h"
#include "launch/huggingface/export/merged_weights.h"
#include "launch/huggingface/tensor_names.h"

namespace tessera {

/// Collects Hugging Face's tensor `part` of a joint tensor of ours, both fp32 in host memory: its
/// part of each group in turn.
void copy_part(const TensorName& name, size_t part, const Tensor& ours, const Tensor& theirs);

/// Reads Hugging Face's tensors of a checkpoint in fp32, with adapters merged into the weights.
class TensorPartReader {
 public:
  /// `checkpoint` and `model` must outlive this.
  TensorPartReader(Checkpoint& checkpoint, const ModelConfig& model)
      : weights_(checkpoint, model) {}

  /// The tensor name.theirs[part], in its shape and layout. Throws like Checkpoint::read().
  OwnedTensor read(const TensorName& name, size_t part) const;

 private:
  MergedWeights weights_;
};

}  // namespace tessera
