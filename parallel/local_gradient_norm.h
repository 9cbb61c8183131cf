#pragma once

#include "core/memory.h"
#include "core/parameters/parameter.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Computes the squared norms of gradients that are not yet summed over the data ranks: of each
/// data rank's own gradient of the whole model, counting each element once. Parts of gradients
/// (Parameter::partial_over) are summed over the tensor and context ranks in a copy, so the
/// gradients stay as they are. `squares` is (1) fp64, on the store's device, and begins with 0.
class LocalGradientNorm {
 public:
  /// `store` must be allocated. All references must outlive this object.
  LocalGradientNorm(const ParameterStore& store, const ParallelGroups& groups);

  /// Adds the squares of one parameter's gradient. Collective over the tensor and context ranks.
  void add(const Parameter& parameter, const Tensor& squares) const;
  /// Adds those of the gradients that the store keeps, add() having seen the others, and sums over
  /// the ranks: squares = the sum over the data ranks of Σ grad², the same value on every rank.
  /// Collective over the world. The host does not wait for the device.
  void finish(const Tensor& squares) const;

 private:
  const ParameterStore& store_;
  const ParallelGroups& groups_;
  OwnedTensor copy_;  ///< of a piece of a partial gradient; undefined if there is none
};

}  // namespace tessera
