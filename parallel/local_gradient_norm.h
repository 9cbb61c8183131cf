#pragma once

#include <vector>

#include "core/memory.h"
#include "core/parameters/parameter.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Computes the squared norms of gradients that are not yet summed over the data ranks: of each
/// data rank's own gradient of the whole model, counting each element once. Parts of gradients
/// (Parameter::partial_over) are summed over the tensor and context ranks in a copy, so the
/// gradients stay as they are.
class LocalGradientNorm {
 public:
  /// `store` must be allocated. All references must outlive this object.
  LocalGradientNorm(const ParameterStore& store, const ParallelGroups& groups);

  /// Writes squares (1) fp64, on the store's device, = the sum over the data ranks of Σ grad²: the
  /// same value on every rank. Reads each gradient once. Collective over the world. The host does
  /// not wait for the device.
  void sum_squares(Tensor squares) const;

 private:
  struct Partial {
    Tensor grads;                     // (n)
    std::vector<Communicator*> over;  // groups of several ranks
    bool counts;                      // whether this rank counts the sum
  };

  void add_partial(const Partial& partial, Tensor squares) const;

  const ParallelGroups& groups_;
  std::vector<Tensor> counted_;  ///< by this rank
  std::vector<Partial> partial_;
  OwnedTensor copy_;  ///< of a piece of a partial gradient; undefined if there is none
};

}  // namespace tessera
