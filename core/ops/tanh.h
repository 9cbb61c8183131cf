#pragma once

#include "core/tensor.h"

namespace tessera {

/// y = tanh(x), fp32 or bf16, of the same shape. y may alias x.
void tanh_forward(const Tensor& x, Tensor y);

/// dx = dy × (1 − y²), from the output y. dx may alias dy or y.
void tanh_backward(const Tensor& dy, const Tensor& y, Tensor dx);

}  // namespace tessera
