#pragma once

#include "core/tensor.h"

namespace tessera {

/// Stores the keys and values of qkv (B, T, 3, Hl, D) in a cache: keys[b, h, first + t] and
/// values[b, h, first + t], (B, Hl, capacity, D) in qkv's dtype, fp32 or bf16. Throws if positions
/// [first, first + T) exceed the capacity.
void store_key_values(const Tensor& qkv, int64_t first, Tensor keys, Tensor values);

}  // namespace tessera
