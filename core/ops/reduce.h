#pragma once

#include "core/accumulate.h"
#include "core/tensor.h"

namespace tessera {

/// out += Σ x² in double, on the device: x fp32 or bf16 of any shape, out (1) fp64. The order of
/// the sum depends only on the number of elements.
void add_sum_of_squares(const Tensor& x, Tensor out);

/// out[c] += Σ_rows x[row, c], or out[c] = that sum, the gradient of a bias. x (..., C) fp32 or
/// bf16, out (C) fp32. The order of the sum does not depend on the number of threads.
void column_sum(const Tensor& x, Tensor out, Accumulate accumulate = Accumulate::yes);

}  // namespace tessera
