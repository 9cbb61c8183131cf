#pragma once

#include <vector>

#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Computes the sum of squares of the whole model's gradient, counting each element once. Shards
/// are summed over the tensor ranks; replicated parameters are counted by tensor rank 0 only. With
/// ZeRO, each data rank counts its optimizer shard. The square root of the sum is the Euclidean
/// norm.
class GradientNorm {
 public:
  /// `store` must be allocated. `store`, `tp` and `dp` must outlive this object. `dp` may be null
  /// if the store is not sharded over data ranks.
  GradientNorm(const ParameterStore& store, Communicator& tp, Communicator* dp = nullptr);

  /// Writes squares (1) fp64, on the store's device, = Σ grad²: the same value on every rank. Call
  /// it after gradients are summed over the data ranks. Collective over the tensor ranks and, with
  /// ZeRO, the data ranks. The host does not wait for the device.
  void sum_squares(Tensor squares) const;

  /// Number of ranges of the flat gradients that this rank counts.
  size_t num_ranges() const { return counted_.size(); }

 private:
  Communicator& tp_;
  Communicator* owners_;  ///< null without ZeRO
  std::vector<Tensor> counted_;
};

}  // namespace tessera
