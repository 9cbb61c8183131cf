#pragma once

#include "core/tensor.h"

namespace tessera::cuda {

/// Replaces each number of `x`, fp32 or fp64, by a signed integer of the same width, in place, so
/// that the integers are in the order of the numbers and NaN, of either sign, is above all. A
/// maximum of integers thereby is one of numbers that keeps NaN.
void to_order_keys(Tensor x);

/// Back again. A NaN comes back as the quiet one; everything else is the same bits.
void from_order_keys(Tensor x);

}  // namespace tessera::cuda
