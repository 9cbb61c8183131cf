#pragma once

#include "core/tensor.h"

namespace tessera {

/// All elements become `value` (any dtype).
void fill(Tensor tensor, double value);

/// destination = source, converted between fp32 and bf16 where the dtypes differ.
void copy(const Tensor& source, Tensor destination);

/// out = a + b in one dtype (fp32 or bf16). out may alias a or b.
void add(const Tensor& a, const Tensor& b, Tensor out);

}  // namespace tessera
