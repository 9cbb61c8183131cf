#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

/// Joins the columns of a matrix that an all_gather collected from R ranks: out[n, r × W + c] =
/// parts[r, n, c], exactly. Padding columns, beyond those of out, are dropped. parts (R, N, W) fp32
/// or bf16, out (N, K) fp32 with K ≤ R × W; they may not alias.
void join_columns(const Tensor& parts, Tensor out);

/// out[n, first_out + c] = x[n, first_x + c] for c < columns; the other columns of out are
/// unchanged. x (N, A) and out (N, B) of one dtype, fp32 or bf16; they may not alias.
void copy_columns(const Tensor& x, int64_t first_x, Tensor out, int64_t first_out, int64_t columns);

}  // namespace tessera
