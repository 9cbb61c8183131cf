#pragma once

#include "core/tensor.h"

namespace tessera {

/// Rotary position embedding (Su et al., "RoFormer", 2021) in Hugging Face's layout (rotate_half):
/// dims i and i + D/2 of a head form a pair. At position p it is rotated by p × base^(−2i/D).

/// Writes table (N, D) fp32: the cosines of each row's D/2 angles, then their sines. positions (N)
/// int32. Computed once per step for all layers. D must be even, base positive.
void rotary_table(const Tensor& positions, float base, Tensor table);

/// Rotates the queries and keys of qkv (B, T, 3, Hl, D) in place, fp32 or bf16, computed in fp32;
/// values are unchanged. table (B × T, D) comes from rotary_table.
void rotary_forward(const Tensor& table, Tensor qkv);

/// Rotates the gradients of queries and keys back, in place: the transpose of rotary_forward.
void rotary_backward(const Tensor& table, Tensor dqkv);

}  // namespace tessera
