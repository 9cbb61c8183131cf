#pragma once

#include "core/tensor.h"

namespace tessera {

/// Gaussian error linear unit (Hendrycks, Gimpel, 2016): `erf` is x Φ(x), `tanh` is GPT-2's
/// approximation 0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))).
enum class Gelu : uint8_t { tanh, erf };

/// y = gelu(x), fp32 or bf16, of the same shape. y may alias x.
void gelu_forward(const Tensor& x, Gelu kind, Tensor y);

/// dx = dy × gelu'(x). dx may alias dy or x.
void gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor dx);

}  // namespace tessera
