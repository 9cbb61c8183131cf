#pragma once

#include "core/tensor.h"

namespace tessera {

/// All elements become `value` (any dtype).
void fill(Tensor tensor, double value);

/// destination = source, converted between fp32 and bf16 where the dtypes differ. Between the host
/// and a GPU dtypes must be equal: a copy to the host returns when it is done; one from the host
/// may be under way from pinned memory (core/memory.h), which then stays as it is until a
/// synchronize.
void copy(const Tensor& source, Tensor destination);

/// out = a + b in one dtype (fp32 or bf16). out may alias a or b.
void add(const Tensor& a, const Tensor& b, Tensor out);

}  // namespace tessera
