#pragma once

#include <cstdint>

#include "core/ops/scalar.h"
#include "core/tensor.h"

namespace tessera {

/// The factors of the loss gradients: each is one over the global number of targets.
struct LossWeights {
  Scalar token = 0.0f;
  Scalar document = 0.0f;
};

/// The sums over micro-batches, in one fp64 tensor, so that one all-reduce sums them over the data
/// ranks.
struct LossSums {
  static constexpr int64_t kCount = 4;

  Tensor values;  // (kCount) fp64

  Tensor token_loss() const { return values.slice(0, 1); }  ///< Σ −log p(target)
  Tensor token_correct() const { return values.slice(1, 2); }
  Tensor document_loss() const { return values.slice(2, 3); }  ///< Σ −log p(label), or ValueLoss
  Tensor document_correct() const { return values.slice(3, 4); }
};

/// Tensors to which a model writes the loss of each target, on every tensor rank. It skips
/// undefined ones, and those for which it has no head with a cross-entropy.
struct TargetLosses {
  Tensor tokens = {};     ///< (M) fp32, of the tokens with a target
  Tensor documents = {};  ///< (S) fp32, of documents; meaningless without a label
};

}  // namespace tessera
