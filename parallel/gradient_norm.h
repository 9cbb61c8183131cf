#pragma once

#include <vector>

#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// The sum of squares of the whole model's gradient, every element counted once: shards are summed
/// over the tensor ranks, and what the tensor ranks hold in common is counted by the first of them.
/// Where data ranks share the optimizer's state, each counts what it owns. Its root is the
/// Euclidean norm.
class GradientNorm {
 public:
  /// `store` is allocated; it, `tp` and `dp` must outlive this. `dp` may be null where this rank
  /// owns all of the store.
  GradientNorm(const ParameterStore& store, Communicator& tp, Communicator* dp = nullptr);

  /// squares (1) fp64, on the store's device, = Σ grad²: the same number on every rank. After the
  /// data ranks' sum. Collective over the tensor ranks, and over the data ranks that share the
  /// store; the host does not wait for the device.
  void sum_squares(Tensor squares) const;

  /// Of the flat gradients, that this rank counts.
  size_t num_ranges() const { return counted_.size(); }

 private:
  Communicator& tp_;
  Communicator* owners_;  ///< null where this rank owns all
  std::vector<Tensor> counted_;
};

}  // namespace tessera
