#pragma once

#include "core/tensor.h"

namespace tessera {

/// A factor of an op: a number, or a (1) fp32 tensor on the device of the op's tensors. The op
/// reads the tensor when it runs, so a captured CUDA graph can run with another factor.
struct Scalar {
  Scalar(float number) : value(number) {}
  explicit Scalar(const Tensor& tensor_) : tensor(tensor_) {}

  float value = 0.0f;
  Tensor tensor = {};  ///< undefined: the factor is `value`

  /// The factor; `tensor` must be in host memory.
  float host_value() const { return tensor.defined() ? tensor.span<float>()[0] : value; }
};

}  // namespace tessera
