#pragma once

#include "core/accumulate.h"
#include "core/tensor.h"

namespace tessera {

/// The order of the rows of a projection for grouped-query attention, and that of attention:
/// `grouped` (B, T, K, G + 2, D) has for each of K groups the queries of G heads, then the key and
/// the value that these heads share; qkv (B, T, K × G + 2 K, D) has the queries of all groups, then
/// the keys, then the values.

/// Writes qkv. fp32 or bf16; qkv may not alias grouped.
void split_groups(const Tensor& grouped, Tensor qkv);

/// Writes dgrouped, the gradient of grouped, which may not alias dqkv.
void split_groups_backward(const Tensor& dqkv, Tensor dgrouped);

/// RMSNorm of each head's query and key with weights that all heads share ("QK norm"; Henry et al.,
/// "Query-Key Normalization for Transformers", 2020).
struct QueryKeyNorm {
  Tensor query_weight, key_weight;  ///< (D), in the dtype of the activations
  float eps = 0.0f;
};

/// Like split_groups(), of normalized queries and keys. Writes rstd (B × T × K, G + 1) fp32
/// for the backward pass: of each group's queries, then of its key.
void normalize_and_split(const Tensor& grouped, const QueryKeyNorm& norm, Tensor qkv, Tensor rstd);

/// Writes dgrouped, the gradient of grouped, and adds to the gradients (D) fp32 of the weights, or
/// overwrites them. The sums over rows do not depend on the number of threads.
void normalize_and_split_backward(const Tensor& dqkv, const Tensor& grouped,
                                  const QueryKeyNorm& norm, const Tensor& rstd, Tensor dgrouped,
                                  Tensor dquery_weight, Tensor dkey_weight, Accumulate accumulate);

}  // namespace tessera
