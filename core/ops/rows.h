#pragma once

#include "core/tensor.h"

namespace tessera {

/// Ops on selected rows of a matrix, such as the positions with a loss. rows (M) int32 are within
/// the matrix. fp32 or bf16. A rank may have only some rows of the matrix: row `first` of the
/// matrix is row 0 of x or dx. Outputs may not alias inputs.

/// out[m] = x[rows[m] − first], or zeros if x has no such row. x (..., C), out (M, C), one dtype.
void gather_rows(const Tensor& x, const Tensor& rows, Tensor out, int64_t first = 0);

/// dx[rows[m] − first] += dout[m] if dx has such a row: the gradient of gather_rows. The rows are
/// distinct. dout (M, C), dx (..., C), one dtype.
void scatter_add_rows(const Tensor& dout, const Tensor& rows, Tensor dx, int64_t first = 0);

/// out[m] = values[rows[m]]. All int32; values (N), rows and out (M).
void gather_ints(const Tensor& values, const Tensor& rows, Tensor out);

/// count (1) fp64 += the number of n with a[n] = b[n]. Both (N) int32.
void count_equal(const Tensor& a, const Tensor& b, Tensor count);

/// out[n] = the column of the largest element of x[n], the first one of equals. x (N, K) fp32 or
/// bf16, K ≥ 1, out (N) int32.
void argmax_rows(const Tensor& x, Tensor out);

}  // namespace tessera
