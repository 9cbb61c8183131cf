#pragma once

#include "core/tensor.h"

namespace tessera {

/// Stores the keys and values of qkv (B, T, Hl + 2 Kl, D), its last heads, in a cache: keys[b, k,
/// first + t] and values[b, k, first + t], (B, Kl, capacity, D) in qkv's dtype, fp32 or bf16.
/// Throws if positions [first, first + T) exceed the capacity.
void store_key_values(const Tensor& qkv, int64_t first, Tensor keys, Tensor values);

}  // namespace tessera
