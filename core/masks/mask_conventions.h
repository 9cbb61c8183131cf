#pragma once

#include "core/tensor.h"

namespace tessera {

/// AttentionMask stores booleans as uint8, where 1 hides. The public conventions contradict each
/// other, so callers must name the one that their data follow.
///
/// These functions accept uint8, int32 or int64 of shape (B, T) for `hidden_keys`, or (T, T), (B,
/// 1, T, T) or (B, H, T, T) for `hidden`, and write uint8 of the same shape, in host memory. They
/// throw on any value but 0 and 1 and name the first one.

/// PyTorch's nn.MultiheadAttention (key_padding_mask, attn_mask): true (1) hides. Its attn_mask (B
/// × H, T, T) is a view of (B, H, T, T); its floating-point masks are added to scores, like
/// AttentionMask::additive. scaled_dot_product_attention uses Hugging Face's convention instead.
void hidden_from_pytorch(const Tensor& mask, Tensor hidden);

/// Hugging Face's attention_mask: 1 is visible, 0 is padding.
void hidden_from_hugging_face(const Tensor& mask, Tensor hidden);

/// Writes lengths (B) int32 of hidden_keys (B, T) uint8 that hides only the end of each sequence.
/// Throws if a visible key follows a hidden one, and names it.
void lengths_of(const Tensor& hidden_keys, Tensor lengths);

}  // namespace tessera
