#pragma once

#include "core/arena.h"
#include "core/ops/activation.h"
#include "core/parameters/parameter.h"

namespace tessera {

/// The products of a linear layer with the matrix of `weight`, as in core/ops/matmul.h. If
/// Parameter::fp8 is set, they are of 8-bit codes (core/ops/fp8.h), which are made in `arena` for
/// each product: so any values of the weights may precede any pass. The gradient of the weight is
/// not among them, because its sums are over rows.

/// y = x wᵀ + bias, which may be undefined.
void forward_product(Arena& arena, const Tensor& x, const Parameter& weight, const Tensor& bias,
                     const Tensor& y);

/// forward_product, and active = f(hidden).
void activation_product(Arena& arena, const Tensor& x, const Parameter& weight, const Tensor& bias,
                        Activation kind, const Tensor& hidden, const Tensor& active);

/// dx = dy w.
void input_gradient(Arena& arena, const Tensor& dy, const Parameter& weight, const Tensor& dx);

/// input_gradient of f(hidden), for hidden.
void activation_input_gradient(Arena& arena, const Tensor& dy, const Parameter& weight,
                               const Tensor& hidden, Activation kind, const Tensor& dhidden);

}  // namespace tessera
