#pragma once

#include <cstdint>

namespace tessera {

/// to (columns, rows) = the transposed `from` (rows, columns). They must not overlap.
void transpose(const float* from, int64_t rows, int64_t columns, float* to);

}  // namespace tessera
