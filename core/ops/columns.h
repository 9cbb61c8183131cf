#pragma once

#include "core/tensor.h"

namespace tessera {

/// Joins the columns of a matrix that an all_gather collected from R ranks: out[n, r × W + c] =
/// parts[r, n, c], exactly. Padding columns, beyond those of out, are dropped. parts (R, N, W) fp32
/// or bf16, out (N, K) fp32 with K ≤ R × W; they may not alias.
void join_columns(const Tensor& parts, Tensor out);

}  // namespace tessera
