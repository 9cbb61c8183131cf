#pragma once

#include "core/tensor.h"

namespace tessera {

/// positions[b, t] = first + t, for sequences that all start at `first`. positions (B, T) int32.
/// Throws if a position does not fit into int32.
void fill_positions(int64_t first, Tensor positions);

}  // namespace tessera
