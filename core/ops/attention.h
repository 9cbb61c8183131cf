#pragma once

#include <optional>
#include <string>

#include "core/masks/attention_mask.h"
#include "core/ops/dropout.h"
#include "core/tensor.h"

namespace tessera {

/// Places of the rows of a batch without padding in the padded batch: row n is position
/// index[n] % seq_length of sequence index[n] / seq_length.
struct PaddedRows {
  Tensor index = {};  ///< (N) int32; undefined: no row is left out, index[n] = n
  int64_t seq_length = 0;
};

/// Dropout of attention weights. A weight draws one random byte, a quarter of what an element of
/// other tensors draws, and is dropped if random_byte() is below `threshold`. So the probability is
/// threshold / 256: Dropout::probability rounded to a multiple of 1/256. `scale`, the factor of
/// kept weights, is 1 / (1 − threshold / 256), the inverse of the probability that is kept, rounded
/// once.
struct WeightDropout {
  uint32_t threshold;  ///< 1 to 255; 0 without dropout
  float scale;
};
WeightDropout weight_dropout(const Dropout& dropout);

/// Why attention weights cannot have a dropout of this probability, which must be in [0, 1): it is
/// not 0, but a multiple of 1/256 near it is 0 or 1. None if they can.
std::optional<std::string> weight_dropout_unsupported_reason(double probability);

/// Keys and values of their own: Ns rows in documents. The queries of document i
/// (AttentionMask::documents) see keys of document i here, which may be none, and no others.
///
/// Without `positions` this is cross-attention: queries see all keys of their document. With
/// `positions`, queries and keys are tokens of the same documents, and the queries are some of
/// them: those of a context rank.
struct AttentionMemory {
  Tensor key_values = {};  ///< (1, Ns, 2 Kl, D), all keys of a row, then all values
  Tensor documents = {};   ///< (S + 1) int32, cumulative lengths, from 0 to Ns
  /// As in AttentionOptions, of the keys. Undefined: they are one sequence of Ns.
  PaddedRows padded_rows = {};
  /// (N) int32: the position of each query among the keys of its document; ascends within one. The
  /// mask may then have all parts that a batch without padding supports. It counts positions among
  /// the keys, and hidden_keys is (1, Ns).
  Tensor positions = {};

  bool defined() const { return key_values.defined(); }
};

/// The options of attention for the heads of this rank. The dropout of weight (b, h, t, s) has the
/// global index (((first_row + b) × total_heads + first_head + h) × T + t) × T + s.
///
/// A batch without padding has B = 1, T = N rows of real tokens, mask.documents that delimit the
/// sequences or documents, and `padded_rows`, from which b, t, s and T above are those of the
/// padded batch. The rows of a document are consecutive there.
struct AttentionOptions {
  float scale = 1.0f;  ///< multiplies q·k before the softmax, usually 1/sqrt(D)
  AttentionMask mask = {};
  Dropout dropout = {};
  int64_t first_head = 0;  ///< global index of this rank's head 0
  int64_t total_heads = 1;
  int64_t kv_heads = 0;  ///< Kl, of this rank; 0: as many as heads
  PaddedRows padded_rows = {};
  /// (Hl, 2R − 1) fp32: column R − 1 + (s − t) is added to the scaled score of query t and key s
  /// (core/ops/position_bias.h). R is at least T or, without padding, padded_rows.seq_length.
  Tensor position_bias = {};
  /// If defined, `qkv` holds only queries, (1, N, Hl, D). The dropout of weight (b, h, t, s) has
  /// the index above, but with × Ts instead of the last × T, where Ts is that of
  /// memory.padded_rows. Without memory.positions, the mask has only documents, and there is no
  /// position bias.
  AttentionMemory memory = {};
};

/// The heads of qkv (B, T, Hl + 2 Kl, D): Kl keys and values serve groups of Hl / Kl queries each
/// (Ainslie et al., "GQA", 2023).
struct AttentionHeads {
  int64_t queries, key_values;

  int64_t in_group() const { return key_values == 0 ? 1 : queries / key_values; }
};
inline AttentionHeads attention_heads(const Tensor& qkv, const AttentionOptions& options) {
  const int64_t all = qkv.dim(2);
  if (options.memory.defined()) return {all, options.memory.key_values.dim(2) / 2};
  const int64_t key_values = options.kv_heads == 0 ? all / 3 : options.kv_heads;
  return {all - 2 * key_values, key_values};
}

/// out = softmax(scale × q kᵀ + biases, masked) v for each of this rank's Hl heads. qkv (B, T, Hl +
/// 2 Kl, D), fp32 or bf16, holds the queries of all heads, then the keys, then the values; head h
/// has key and value h / (Hl / Kl). out (B, T, Hl, D) has its dtype; log_sum_exp (B, Hl, T) fp32 is
/// written for the backward pass. The outputs may not alias qkv. The (T, T) matrix is never stored:
/// tiles with a running softmax (Milakov, Gimelshein, 2018; Dao et al., "FlashAttention", 2022), in
/// fp32. Products of bf16 round the weights and their gradients to
/// bf16, on a GPU and on processors with bf16 products. Fully hidden tiles are skipped. A fully
/// masked row is zeros, with log_sum_exp = −inf. Throws if a part of the mask does not fit, and
/// says what would, or if attention_unsupported_reason() returns a reason.
///
/// With options.memory, the same for queries (1, N, Hl, D) and the memory's keys and values.
///
/// The bits do not depend on the run, on the number of threads, or on how heads are split over
/// ranks. A hidden key has no influence if it and its value are finite. On the CPU tiles start at
/// the first row of a document or, without documents, of a sequence, so a document has the same
/// bits alone, packed with others (except for dropout), and with or without padding. On a GPU tiles
/// start at the first row of a sequence, and a batch without padding is one sequence: such results
/// differ in the order of sums. A GPU supports heads of up to 256 columns, and the values of its
/// masks are not checked, because the host does not read them.
void attention_forward(const Tensor& qkv, const AttentionOptions& options, Tensor out,
                       Tensor log_sum_exp);

/// Writes dqkv (B, T, Hl + 2 Kl, D), the gradient of qkv, from dout (B, T, Hl, D). Those of a key
/// and value are summed over the heads of their group in fp32, in order. Recomputes the
/// weights tile by tile. All have qkv's dtype; `out` and `log_sum_exp` are those of the forward
/// pass. dqkv may not alias anything.
///
/// If dposition_bias (Hl, 2R − 1) fp32 is defined, adds to each column the gradients of all scores
/// of its head and distance, in a fixed order. On the CPU, a thread that calls this keeps 8 bytes
/// for each key of each head.
///
/// With options.memory, dqkv is the gradient of the queries, and dkey_values, which is not used
/// otherwise, is overwritten with that of memory.key_values.
void attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                        const Tensor& log_sum_exp, const AttentionOptions& options, Tensor dqkv,
                        Tensor dposition_bias = {}, Tensor dkey_values = {});

/// Writes weights (B, Hl, T, T) or, with options.memory, (1, Hl, N, Ns) fp32: the softmax weights
/// of attention_forward, without dropout; zeros where a key is hidden. For inspection; no pass of a
/// model needs them.
void attention_weights(const Tensor& qkv, const Tensor& log_sum_exp,
                       const AttentionOptions& options, Tensor weights);

/// Why attention_forward, _backward and _weights do not support masks of these kinds; none if they
/// do. A batch without padding needs `documents` and supports beside them only causal, window,
/// dilation, prefix, global_tokens, and hidden and additive by position, which depend on positions
/// within a document, and hidden_keys, (1, N). The other masks refer to positions in padded
/// sequences.
std::optional<std::string> attention_unsupported_reason(const MaskKinds& kinds);

/// Attention of one new position per sequence to cached keys and values, for generation. q, out (B,
/// Hl, D); keys, values (B, Kl, capacity, D); all of one dtype, fp32 or bf16. The new position is
/// the last of the first `length`, of which the query sees those that options.mask shows: its
/// window, dilation and global_tokens, and the row of the newest position in `hidden` and
/// `additive` by position. A query that sees none outputs zeros. Of the options, the scale, the
/// position_bias, whose R and that of the mask is at least `length`, and first_head and total_heads
/// are read. The bits of a head do not depend on other heads.
void attention_decode(const Tensor& q, const Tensor& keys, const Tensor& values, int64_t length,
                      const AttentionOptions& options, Tensor out);

/// Why attention_decode refuses `kinds`. It supports no mask, causal, window, dilation,
/// global_tokens, prefix, and hidden and additive by position. Causal and prefix have no effect of
/// their own: later keys are not in the cache.
std::optional<std::string> attention_decode_unsupported_reason(const MaskKinds& kinds);

}  // namespace tessera
