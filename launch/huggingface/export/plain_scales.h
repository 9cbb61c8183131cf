#pragma once

#include <string>

#include "core/tensor.h"
#include "models/model_config.h"

namespace tessera {

/// Makes weights of a model with µP those of one in standard parametrization that computes the same
/// logits, for classes of `transformers`, which have no keys for µP's multipliers. What scales the
/// attention scores is multiplied into the queries or, with QK norm, its weight; what scales the
/// logits into the weight of an untied head or classifier, or otherwise into the norm before the
/// head.
class PlainScales {
 public:
  explicit PlainScales(const ModelConfig& model);

  /// Scales a whole tensor of the model, fp32 in host memory. Changes nothing without µP.
  void apply(const std::string& name, const Tensor& tensor) const;

 private:
  bool scales_logits(const std::string& name) const;
  void scale_queries(const Tensor& joint) const;

  ModelConfig model_;
  float attention_, logits_;
};

}  // namespace tessera
