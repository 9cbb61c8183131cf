#pragma once

#include "core/tensor.h"

namespace tessera {

/// Grouped-query attention (Ainslie et al., "GQA: Training Generalized Multi-Query Transformer
/// Models", 2023) by repeating keys and values. `grouped` (B, T, K, G + 2, D) has for each of K
/// groups the queries of G heads, then the key and the value that these heads share.

/// Writes qkv (B, T, 3, K × G, D): head h has query h % G of group h / G, and the group's key and
/// value. fp32 or bf16; qkv may not alias grouped.
void repeat_key_values(const Tensor& grouped, Tensor qkv);

/// Writes dgrouped, the gradient of grouped: that of a key or value is the sum over the heads of
/// its group, in fp32 and in the order of the heads. dgrouped may not alias dqkv.
void repeat_key_values_backward(const Tensor& dqkv, Tensor dgrouped);

}  // namespace tessera
