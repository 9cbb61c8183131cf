#pragma once

#include "core/parameters/parameter.h"
#include "core/tensor.h"

namespace tessera {

/// The gradients of a linear layer's parameters: adds dyᵀ x to that of `weight` and the column sums
/// of dy to that of `bias`, which may be null. Leaves out frozen parameters. The leading dims of a
/// joint weight (parts, out, in) are flattened, as dy's columns are.
void add_linear_gradients(const Tensor& dy, const Tensor& x, Parameter& weight, Parameter* bias);

/// The part for the bias alone, from rows that may be others than the weight's.
void add_bias_gradient(const Tensor& dy, Parameter& bias);

}  // namespace tessera
