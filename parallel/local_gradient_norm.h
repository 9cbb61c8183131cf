#pragma once

#include <vector>

#include "core/memory.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Computes the squared norms of gradients that are not yet summed over the data ranks: of each
/// data rank's own gradient of the whole model, counting each element once. Parts of gradients
/// (PartialGradients) are summed over the tensor ranks in a copy, so the gradients stay as they
/// are.
class LocalGradientNorm {
 public:
  /// `store` must be allocated. All references must outlive this object.
  LocalGradientNorm(const ParameterStore& store, Communicator& tp, Communicator& dp,
                    bool sequence_parallel);

  /// Writes squares (1) fp64, on the store's device, = the sum over the data ranks of Σ grad²: the
  /// same value on every rank. Reads each gradient once. Collective over both groups. The host does
  /// not wait for the device.
  void sum_squares(Tensor squares) const;

 private:
  void add_partial(const Tensor& grads, Tensor squares) const;  // grads (n)

  Communicator& tp_;
  Communicator& dp_;
  std::vector<Tensor> counted_;  ///< by this rank
  std::vector<Tensor> partial_;  ///< (n) each
  OwnedTensor copy_;             ///< of a piece of a partial gradient; undefined if there is none
};

}  // namespace tessera
