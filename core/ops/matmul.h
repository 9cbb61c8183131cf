#pragma once

#include "core/accumulate.h"
#include "core/ops/activation.h"
#include "core/tensor.h"

namespace tessera {

/// The matrix products of a linear layer with weights w (N, K). The leading dims of activations are
/// flattened into M rows: x is (..., K), y and dy are (..., N). fp32 or bf16, sums in fp32. No
/// argument may alias an output. Throws on shapes or dtypes that do not fit.

/// y = x wᵀ + bias, all of one dtype. bias (N) may be undefined.
void linear_forward(const Tensor& x, const Tensor& w, const Tensor& bias, Tensor y);

/// dx = dy w, all of one dtype.
void linear_backward_input(const Tensor& dy, const Tensor& w, Tensor dx);

/// hidden = x wᵀ + bias, active = f(hidden): linear_forward and activation_forward in one. A GPU
/// may apply the GELU before hidden is rounded. active has hidden's shape and dtype and does not
/// alias it.
void linear_activation_forward(const Tensor& x, const Tensor& w, const Tensor& bias,
                               Activation kind, Tensor hidden, Tensor active);

/// dhidden = (dy w) × f'(hidden), the gradient of y = f(hidden) wᵀ: linear_backward_input and
/// activation_backward in one. dhidden has hidden's shape and dtype and does not alias it.
void linear_activation_backward_input(const Tensor& dy, const Tensor& w, const Tensor& hidden,
                                      Activation kind, Tensor dhidden);

/// dw = dyᵀ x, or dw += dyᵀ x. dy and x of one dtype, dw (N, K) fp32.
void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor dw, Accumulate accumulate);

/// linear_backward_weight, and dbias[n] += Σ_rows dy[row, n] or dbias[n] = that sum, (N) fp32 or
/// undefined: linear_backward_weight and column_sum in one. A GPU may read dy once for both.
void linear_backward_weight_bias(const Tensor& dy, const Tensor& x, Tensor dw,
                                 Accumulate accumulate, Tensor dbias,
                                 Accumulate accumulate_bias = Accumulate::yes);

}  // namespace tessera
