#pragma once

#include "core/tensor.h"

namespace tessera {

/// A step of an exponential moving average: ema += (1 − decay) (weight − ema). All but `decay`,
/// which is in [0, 1), are fp32; weight and ema have the same number of elements and may not alias.
/// If grad_scale, (1) on the same device, is NaN, nothing changes, as the optimizer's step with it.
void ema_step(double decay, const Tensor& grad_scale, const Tensor& weight, Tensor ema);

/// Exchanges the elements of two tensors as in ema_step(), bit for bit.
void ema_swap(Tensor weight, Tensor ema);

}  // namespace tessera
