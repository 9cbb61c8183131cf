#pragma once

#include "core/tensor.h"

namespace tessera {

/// positions[b, t] = first + t: those of sequences that all start at `first`. positions (B, T)
/// int32.
void fill_positions(int64_t first, Tensor positions);

}  // namespace tessera
