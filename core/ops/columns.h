#pragma once

#include "core/tensor.h"

namespace tessera {

/// Puts the columns of a matrix together that an all_gather has brought from R ranks: out[n, r × W
/// + c] = parts[r, n, c], exactly. Columns beyond out's, which are padding, are left out. parts
/// (R, N, W) fp32 or bf16, out (N, K) fp32 with K ≤ R × W.
void join_columns(const Tensor& parts, Tensor out);

}  // namespace tessera
