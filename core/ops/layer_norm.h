#pragma once

#include "core/ops/dropout.h"
#include "core/tensor.h"

namespace tessera {

/// Layer normalisation over the last dim (Ba, Kiros, Hinton, 2016):
///   y = (x − mean) / sqrt(var + eps) × weight + bias,  var without Bessel's correction.
/// x, y (..., C) in fp32 or bf16; weight, bias (C) in the same dtype, bias may be undefined; mean
/// and rstd (rows) fp32 are written for the backward pass. y may alias x.
void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps,
                        Tensor y, Tensor mean, Tensor rstd);

/// sum = residual + dropout(x + bias), y = its norm with weight and norm_bias: bias_dropout_add and
/// layer_norm_forward in one, with the same bits. `sum` may alias x or residual; y aliases none of
/// them. On a GPU rows are normalised while they are in registers: of tensors like x, four are
/// moved (x, residual, sum, y), where the two ops move five (sum is read again).
void bias_dropout_add_norm(const Tensor& x, const Tensor& bias, const Tensor& residual,
                           const Dropout& dropout, Tensor sum, const Tensor& weight,
                           const Tensor& norm_bias, float eps, Tensor y, Tensor mean, Tensor rstd);

/// dx = residual + the gradient through the norm; dweight and dbias (C) fp32 are added to, dbias
/// may be undefined. `residual` (like x) may be undefined (then it counts as zero) and may be dx
/// itself; dx may alias dy. The sums over rows do not depend on the number of threads.
void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const Tensor& residual, Tensor dx,
                         Tensor dweight, Tensor dbias);

}  // namespace tessera
