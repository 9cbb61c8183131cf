#pragma once

#include "core/ops/attention.h"

namespace tessera {

/// Throws, naming `op`, unless every part of the options fits qkv (B, T, 3, Hl, D). What lies in
/// host memory is checked for its values too; hidden, additive and hidden_keys take any.
void require_attention_options(const Tensor& qkv, const AttentionOptions& options, const char* op);

}  // namespace tessera
