#pragma once

#include "core/tensor.h"

namespace tessera {

/// AttentionMask stores booleans as uint8 in which 1 hides. The public conventions are each other's
/// opposite, so a caller always names the one that its data follow: nothing here guesses.
///
/// All take uint8, int32 or int64 of shape (B, T) for `hidden_keys`, or (T, T), (B, 1, T, T) or (B,
/// H, T, T) for `hidden`, and write uint8 of the same shape, in host memory. Any value but 0 and 1
/// is an error that names the first one.

/// PyTorch's nn.MultiheadAttention (key_padding_mask, attn_mask): true (1) may not be seen. Its
/// attn_mask (B × H, T, T) is a view of (B, H, T, T); its floating-point masks are added to scores,
/// as AttentionMask::additive is. Not scaled_dot_product_attention, whose booleans are Hugging
/// Face's way round.
void hidden_from_pytorch(const Tensor& mask, Tensor hidden);

/// Hugging Face's attention_mask: 1 is kept, 0 is padding.
void hidden_from_hugging_face(const Tensor& mask, Tensor hidden);

/// lengths (B) int32 of hidden_keys (B, T) uint8 whose padding is only at the end of a sequence; a
/// key that is seen after a hidden one is an error that names it.
void lengths_of(const Tensor& hidden_keys, Tensor lengths);

}  // namespace tessera
