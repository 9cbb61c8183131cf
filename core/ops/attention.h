#pragma once

#include <string>

#include "core/masks/attention_mask.h"
#include "core/ops/dropout.h"
#include "core/tensor.h"

namespace tessera {

/// Where the rows of a batch without its padding would be with it: row n is position
/// padded[n] % seq_length of sequence padded[n] / seq_length.
struct RowPlaces {
  Tensor padded = {};  ///< (N) int32; undefined: no row is left out, padded[n] = n
  int64_t seq_length = 0;
};

/// What all heads of this rank do. The dropout of weight (b, h, t, s) has the global index
/// (((first_row + b) × total_heads + first_head + h) × T + t) × T + s.
///
/// A batch without its padding has B = 1, T = N rows of real tokens, mask.documents that say which
/// of them form a sequence or a document, and `places` of the rows, by which b, t, s and T above
/// are those that the rows would have with the padding. The rows of a document have consecutive
/// places.
struct AttentionOptions {
  float scale = 1.0f;  ///< of q·k before the softmax, 1/sqrt(D) as a rule
  AttentionMask mask = {};
  Dropout dropout = {};
  int64_t first_head = 0;  ///< global index of this rank's head 0
  int64_t total_heads = 1;
  RowPlaces places = {};
};

/// out = softmax(scale × q kᵀ + additive, masked) v for each of the Hl heads that this rank holds.
/// qkv (B, T, 3, Hl, D) holds queries, keys and values interleaved by row; out (B, T, Hl, D) has
/// its dtype, fp32 or bf16; log_sum_exp (B, Hl, T) fp32 is written for the backward pass. The (T,
/// T) matrix is never built: tiles with a running softmax (Milakov, Gimelshein, 2018; Dao et al.,
/// "FlashAttention", 2022), in fp32; but products of bf16 take the weights, and their gradients,
/// rounded to bf16, on a GPU and on processors that multiply bf16. Tiles that the mask hides
/// altogether are skipped. A row with everything masked gives zeros, with log_sum_exp = −inf.
/// Throws where a part of the mask does not fit, saying what would, and where attention_why_not()
/// has something to say.
///
/// Results are the same bits every time, however heads are split over ranks, on any number of
/// threads; a key that is hidden has no influence at all, as long as it and its value are finite.
/// On the CPU tiles start where a document starts, or else a sequence: a document's results are the
/// same bits alone, packed with others (but for dropout), and with or without padding. On a GPU
/// they start where a sequence starts, and a batch without its padding is one: such results differ
/// by the order of their sums. There heads have up to 256 columns. A GPU's masks are not read by
/// the host: what their tensors hold is not checked.
void attention_forward(const Tensor& qkv, const AttentionOptions& options, Tensor out,
                       Tensor log_sum_exp);

/// dqkv (B, T, 3, Hl, D) from dout, with the weights computed again tile by tile. dqkv may not
/// alias anything.
void attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                        const Tensor& log_sum_exp, const AttentionOptions& options, Tensor dqkv);

/// weights (B, Hl, T, T) fp32: the softmax weights of attention_forward, without dropout; zeros
/// where a key is hidden. Only to be looked at: no pass of a model needs them.
void attention_weights(const Tensor& qkv, const Tensor& log_sum_exp,
                       const AttentionOptions& options, Tensor weights);

/// Why attention_forward, _backward and _weights do not take masks of these kinds, or "" if they
/// do: a batch without its padding needs `documents`, and takes only causal and window beside it,
/// since the others speak of the positions of padded sequences.
std::string attention_why_not(const MaskKinds& kinds);

/// One new position a sequence against cached keys and values, for generation. q, out (B, Hl, D);
/// keys, values (B, Hl, capacity, D), of which the first `length` positions are seen, or the last
/// `window` of these where that is not 0; the new position is one of them. What a head gets is the
/// same bits alone and among others.
void attention_decode(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t length,
                      int64_t window, float scale, Tensor out);

/// As attention_why_not, for attention_decode: it takes no mask, causal, and window.
std::string attention_decode_why_not(const MaskKinds& kinds);

}  // namespace tessera
