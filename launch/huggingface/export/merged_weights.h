#pragma once

#include <string>

#include "core/tensor.h"
#include "launch/checkpoint/checkpoint.h"
#include "models/model_config.h"

namespace tessera {

/// The weights of a checkpoint as those of a model without low-rank adapters.
class MergedWeights {
 public:
  /// `checkpoint` and `model` must outlive this.
  MergedWeights(Checkpoint& checkpoint, const ModelConfig& model)
      : checkpoint_(checkpoint), model_(model) {}

  /// Reads a whole weight into `tensor`, fp32 in host memory, and adds scale × B A if its layer has
  /// an adapter. Throws like Checkpoint::read().
  void read(const std::string& name, const Shape& shape, const Tensor& tensor) const;

 private:
  Checkpoint& checkpoint_;
  const ModelConfig& model_;
};

}  // namespace tessera
