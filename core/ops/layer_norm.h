#pragma once

#include "core/accumulate.h"
#include "core/ops/dropout.h"
#include "core/tensor.h"

namespace tessera {

/// Layer normalization over the last dim (Ba, Kiros, Hinton, 2016) or, if `mean` is undefined, RMS
/// normalization (Zhang, Sennrich, 2019):
///
///     layer:  y = (x − mean) / sqrt(var + eps) × weight + bias,  var without Bessel's correction
///     RMS:    y = x / sqrt(mean of x² + eps) × weight + bias
///
/// x, y (..., C) fp32 or bf16; weight, bias (C) in the same dtype, bias may be undefined; mean and
/// rstd (rows) fp32 are written for the backward pass. y may alias x.
void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps,
                        Tensor y, Tensor mean, Tensor rstd);

/// sum = residual + dropout(x + bias), y = the norm of sum with weight and norm_bias:
/// bias_dropout_add and layer_norm_forward in one, with the same bits. `sum` may alias x or
/// residual; y may alias none of them. On a GPU rows are normalized in registers: four tensors of
/// x's size are moved (x, residual, sum, y) instead of five.
void bias_dropout_add_norm(const Tensor& x, const Tensor& bias, const Tensor& residual,
                           const Dropout& dropout, Tensor sum, const Tensor& weight,
                           const Tensor& norm_bias, float eps, Tensor y, Tensor mean, Tensor rstd);

/// dx = residual + the gradient through the norm (RMS if `mean` is undefined) of dy or, if `addend`
/// is defined, of dy + addend rounded to the dtype: add() and this in one, with the same bits;
/// dweight and dbias (C) fp32 are added to or overwritten, dbias may be undefined. `residual`, of
/// x's shape, may be undefined (zero). dx may alias dy, residual or addend. The sums over rows do
/// not depend on the number of threads. On a GPU their order depends on the number of its
/// multiprocessors
/// (cuda::multiprocessors()); dx does not.
void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const Tensor& residual, Tensor dx,
                         Tensor dweight, Tensor dbias, const Tensor& addend = {},
                         Accumulate accumulate = Accumulate::yes);

}  // namespace tessera
