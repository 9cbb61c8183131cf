#pragma once

#include "core/accumulate.h"
#include "core/ops/device_ops.h"

/// The work of what core/ops/cuda/matmul/matmul.h fuses.
namespace tessera::meta {

void matmul_row_sums(const Matrix& a, const Matrix& b, Tensor out, Accumulate accumulate,
                     Tensor sums, Accumulate accumulate_sums);
void matmul_gelu(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor hidden,
                 Tensor active);
void matmul_gelu_backward(const Matrix& a, const Matrix& b, const Tensor& hidden, Tensor out);

}  // namespace tessera::meta
