#pragma once

#include "core/tensor.h"

namespace tessera {

/// keys[b, h, first + t] and values[b, h, first + t] = those of qkv (B, T, 3, Hl, D), for a cache
/// of keys and values (B, Hl, capacity, D) in qkv's dtype, fp32 or bf16. Throws if T positions from
/// `first` on are not within the capacity.
void store_key_values(const Tensor& qkv, int64_t first, Tensor keys, Tensor values);

}  // namespace tessera
