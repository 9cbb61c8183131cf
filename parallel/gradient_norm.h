#pragma once

#include <vector>

#include "core/parameters/parameter.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Computes the sum of squares of the whole model's gradient, counting each element once
/// (ParallelGroups::counts_here). The square root of the sum is the Euclidean norm.
class GradientNorm {
 public:
  /// `store` must be allocated. `store` and `groups` must outlive this object. Throws if the store
  /// is sharded over ranks other than groups.shards.
  GradientNorm(const ParameterStore& store, const ParallelGroups& groups);

  /// Writes squares (1) fp64, on the store's device, = Σ grad²: the same value on every rank. Call
  /// it after gradients are summed over the ranks that have parts. Collective over the world. The
  /// host does not wait for the device.
  void sum_squares(Tensor squares) const;

  /// Number of ranges of the flat gradients that this rank counts.
  size_t num_ranges() const { return counted_.size(); }

 private:
  Communicator& world_;
  std::vector<Tensor> counted_;
};

}  // namespace tessera
