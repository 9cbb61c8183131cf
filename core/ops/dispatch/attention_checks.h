#pragma once

#include "core/ops/attention.h"

namespace tessera {

/// Throws unless options.memory, which is defined, fits the queries q (1, N, Hl, D).
void require_attention_memory(const Tensor& q, const AttentionOptions& options, const char* op);

/// Throws, naming `op`, unless every option fits qkv (B, T, Hl + 2 Kl, D). Also checks the values
/// of masks in host memory, except for hidden, additive and hidden_keys, where any value is valid.
void require_attention_options(const Tensor& qkv, const AttentionOptions& options, const char* op);

/// Throws, naming `op`, unless the numbers of a mask that are not tensors are valid.
void require_positions(const AttentionMask& mask, const char* op);

/// Throws, naming `op`, unless `hidden` or `additive` by position fits the heads of all ranks and
/// has `length` positions or more.
void require_position_plane(const Tensor& plane, const char* name, int64_t total_heads,
                            int64_t length, const char* op);

/// Throws, naming `op`, unless the table has a row per head and covers positions that are less than
/// `length` apart.
void require_position_bias(const Tensor& table, int64_t heads, int64_t length, const char* op);

}  // namespace tessera
