#pragma once

#include "core/tensor.h"

namespace tessera {

/// Rotary position embedding (Su et al., "RoFormer", 2021) in Hugging Face's layout (rotate_half):
/// dims i and i + D/2 of a head are a pair, which at position p is turned by p × base^(−2i/D).

/// table (N, D) = the cosines of each row's D/2 angles, then their sines: fp32. positions (N)
/// int32. Made once for all layers of a step. D must be even, base positive.
void rotary_table(const Tensor& positions, float base, Tensor table);

/// Turns the queries and keys of qkv (B, T, 3, Hl, D) in place, fp32 or bf16, computed in fp32;
/// values stay. table (B × T, D) as of rotary_table.
void rotary_forward(const Tensor& table, Tensor qkv);

/// Turns the gradients of queries and keys back, in place: the transpose of rotary_forward.
void rotary_backward(const Tensor& table, Tensor dqkv);

}  // namespace tessera
