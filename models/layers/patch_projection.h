#pragma once

#include <string>

#include "core/parameters/parameter.h"
#include "models/model_config.h"
#include "parallel/in_flight.h"

namespace tessera {

/// Projects the patches of images to the model's width: y = x Wᵀ. It is a convolution whose stride
/// is its size (Dosovitskiy et al., 2021). Every tensor rank has all of W, and projects the local
/// rows alone. Its bias is a row of the token type embedding, because a class token has none.
class PatchProjection {
 public:
  PatchProjection(ParameterStore& store, const std::string& name, const ModelConfig& config);

  /// patches (1, N, D) fp32 → (1, N, C), or the local rows (1, n, C) if rows are sharded. Saves the
  /// patches in the precision of W.
  Tensor forward(const StepContext& ctx, const Tensor& patches);

  /// Adds to the gradient of W, which is then final, given that of the output. Patches have none.
  void backward(const StepContext& ctx, const Tensor& gradient);

 private:
  Parameter* weight_;   // (C, D)
  InFlight<Tensor> x_;  // (n, D)
};

}  // namespace tessera
