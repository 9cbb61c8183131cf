#pragma once

#include "core/tensor.h"

namespace tessera::cuda {

/// Replaces each number of `x`, fp32 or fp64, in place by a signed integer of the same width, so
/// that the integers are ordered like the numbers, with NaN of either sign above all. A maximum of
/// these integers thus propagates NaN, which a maximum of numbers need not do (NCCL).
void to_order_keys(Tensor x);

/// The inverse. A NaN becomes the quiet NaN; everything else keeps its bits.
void from_order_keys(Tensor x);

}  // namespace tessera::cuda
