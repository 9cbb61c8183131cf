#pragma once

#include "core/tensor.h"

namespace tessera {

/// Some rows of a matrix, as the positions that have a loss. rows (M) int32 are different from one
/// another and within the matrix. fp32 or bf16. A rank may hold a part of the matrix alone, the
/// rows from `first` on: row `first` of the matrix is then row 0 of x or dx.

/// out[m] = x[rows[m] − first], or zeros where x has no such row. x (..., C), out (M, C).
void gather_rows(const Tensor& x, const Tensor& rows, Tensor out, int64_t first = 0);

/// dx[rows[m] − first] += dout[m] where dx has such a row: the gradient of gather_rows. dout (M,
/// C), dx (..., C) in one dtype.
void scatter_add_rows(const Tensor& dout, const Tensor& rows, Tensor dx, int64_t first = 0);

/// out[m] = values[rows[m]]. All int32; values (N), rows and out (M).
void gather_ints(const Tensor& values, const Tensor& rows, Tensor out);

/// count (1) fp64 += how many a[n] are b[n]. Both (N) int32.
void count_equal(const Tensor& a, const Tensor& b, Tensor count);

/// out[n] = the column of the largest element of x[n], the first of equal ones. x (N, K), K ≥ 1,
/// out (N) int32.
void argmax_rows(const Tensor& x, Tensor out);

}  // namespace tessera
