#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

/// The activation function of an MLP:
///
///     gelu       x Φ(x)                                            (Hendrycks, Gimpel, 2016)
///     gelu_tanh  0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))), GPT-2's approximation of it
///     silu       x / (1 + exp(−x))                                 (Elfwing, Uchibe, Doya, 2017)
///     relu       max(x, 0)
enum class Activation : uint8_t { gelu, gelu_tanh, silu, relu };

/// y = f(x), fp32 or bf16, of the same shape. y may alias x.
void activation_forward(const Tensor& x, Activation f, Tensor y);

/// dx = dy × f'(x). dx may alias dy or x. The derivative of relu at 0 is 0.
void activation_backward(const Tensor& dy, const Tensor& x, Activation f, Tensor dx);

/// y = f(gate) × up, a gated linear unit (Shazeer, "GLU Variants Improve Transformer", 2020), with
/// the columns of gate_up (..., 2 F): F of the gate, then F of up. y (..., F), fp32 or bf16, may
/// not alias gate_up.
void gated_activation_forward(const Tensor& gate_up, Activation f, Tensor y);

/// dgate_up (..., 2 F) = {dy × up × f'(gate), dy × f(gate)} for dy (..., F). dgate_up may alias
/// gate_up, not dy.
void gated_activation_backward(const Tensor& dy, const Tensor& gate_up, Activation f,
                               Tensor dgate_up);

}  // namespace tessera
