#pragma once

#include <string>

#include "core/tensor.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/huggingface/export/plain_scales.h"
#include "models/model_config.h"

namespace tessera {

/// The weights of a checkpoint as those of a model without low-rank adapters and µP.
class MergedWeights {
 public:
  /// `checkpoint` and `model` must outlive this.
  MergedWeights(Checkpoint& checkpoint, const ModelConfig& model)
      : checkpoint_(checkpoint), model_(model), scales_(model) {}

  /// Reads a whole weight into `tensor`, fp32 in host memory, and adds scale × B A if its layer has
  /// an adapter. Multiplies it by PlainScales. Throws like Checkpoint::read().
  void read(const std::string& name, const Shape& shape, const Tensor& tensor) const;

 private:
  void add_adapter(const std::string& name, const Shape& shape, const Tensor& tensor) const;

  Checkpoint& checkpoint_;
  const ModelConfig& model_;
  PlainScales scales_;
};

}  // namespace tessera
