#pragma once

#include "core/tensor.h"

namespace tessera {

/// The sum of squares of an fp32 tensor, in double; zero on the meta device. The order of the sum
/// does not depend on the number of threads.
double sum_of_squares(const Tensor& x);

/// The sum of all elements of an fp32 tensor, in double; zero on the meta device. The order of the
/// sum does not depend on the number of threads.
double sum(const Tensor& x);

/// out[c] += Σ_rows x[row, c]: the gradient of a bias. x (..., C) fp32 or bf16, out (C) fp32. The
/// order of the sum does not depend on the number of threads.
void column_sum(const Tensor& x, Tensor out);

}  // namespace tessera
