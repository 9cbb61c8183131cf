#pragma once

#include "core/accumulate.h"
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

/// RMSNorm of each head's query and key with weights that all heads share ("QK norm"; Henry et al.,
/// "Query-Key Normalization for Transformers", 2020).
struct QueryKeyNorm {
  Tensor query_weight, key_weight;  ///< (D), in the dtype of the activations
  float eps = 0.0f;
};

/// Like repeat_key_values(), of normalized queries and keys. Writes rstd (B × T × K, G + 1) fp32
/// for the backward pass: of each group's queries, then of its key.
void normalize_and_repeat(const Tensor& grouped, const QueryKeyNorm& norm, Tensor qkv, Tensor rstd);

/// Writes dgrouped, the gradient of grouped, and adds to the gradients (D) fp32 of the weights, or
/// overwrites them. The sums over rows do not depend on the number of threads.
void normalize_and_repeat_backward(const Tensor& dqkv, const Tensor& grouped,
                                   const QueryKeyNorm& norm, const Tensor& rstd, Tensor dgrouped,
                                   Tensor dquery_weight, Tensor dkey_weight, Accumulate accumulate);

}  // namespace tessera
