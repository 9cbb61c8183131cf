#pragma once

#include <vector>

#include "core/parameter.h"
#include "parallel/communicator.h"

namespace tessera {

/// The sum of squares of the whole model's gradient, every element counted once: shards are summed
/// over the tensor ranks, and what the tensor ranks hold in common is counted by the first of them.
/// Its root is the Euclidean norm.
class GradientNorm {
 public:
  /// `store` is allocated; it and `tp` must outlive this.
  GradientNorm(const ParameterStore& store, Communicator& tp);

  /// squares (1) fp64, on the store's device, = Σ grad²: the same number on every rank. After the
  /// data ranks' sum. Collective over the tensor ranks; the host does not wait for the device.
  void sum_squares(Tensor squares) const;

  /// Of the flat gradients, that this rank counts.
  size_t num_ranges() const { return counted_.size(); }

 private:
  Communicator& tp_;
  std::vector<Tensor> counted_;
};

}  // namespace tessera
