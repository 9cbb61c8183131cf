#pragma once

#include "core/memory.h"
#include "core/tensor.h"

namespace tessera {

/// Finds NaN and infinities in tensors of one device.
class FiniteCheck {
 public:
  explicit FiniteCheck(Device device);

  /// Whether all elements are finite. Tensors of integers always are. Waits for the device.
  bool is_finite(const Tensor& tensor) const;

 private:
  OwnedTensor converted_;  // a piece of a bf16 tensor
  OwnedTensor squares_;    // (1) fp64
  OwnedTensor on_host_;    // (1) fp64
};

}  // namespace tessera
