#pragma once

#include "core/tensor.h"

namespace tessera {

/// A number that an op multiplies by: told with the call, or (1) fp32 on the device of the op's
/// tensors, read when the work runs, so that what was recorded once can run with another.
struct Factor {
  Factor(float number) : value(number) {}
  explicit Factor(const Tensor& where) : at(where) {}

  float value = 0.0f;
  Tensor at = {};  ///< undefined: it is `value`

  /// `at` must be in host memory.
  float now() const { return at.defined() ? at.span<float>()[0] : value; }
};

}  // namespace tessera
