#pragma once

#include "launch/metrics/evaluation.h"
#include "models/model_config.h"

namespace tessera {

/// Floating-point operations that the model itself needs for forward and backward passes over
/// `counts` tokens, whatever the implementation computes: 6 per matrix weight and token (in the
/// head: per target), and 12 × hidden_size per attention pair and layer. As in Chowdhery et al.,
/// "PaLM" (2022), appendix B, the half hidden by a causal mask counts and recomputation does not.
/// In the last block, weights behind attention count only for rows that are computed if these
/// counts are those of one micro-batch (models/output_rows.h).
double model_flops(const ModelConfig& config, const TargetCounts& counts);

/// The part of the blocks, without embeddings and heads.
double block_flops(const ModelConfig& config, const TargetCounts& counts);

}  // namespace tessera
