#pragma once

#include "launch/metrics/evaluation.h"
#include "models/model_config.h"

namespace tessera {

/// Floating-point operations of forward and backward passes over `counts` tokens that the model as
/// such needs, whatever an implementation computes besides: 6 for each weight of a matrix and token
/// (of the head: and target), and 12 × hidden_size for each pair in attention and layer. As in
/// Chowdhery et al., "PaLM" (2022), appendix B, the half that a causal mask hides counts, and what
/// is recomputed does not.
double model_flops(const ModelConfig& config, const TargetCounts& counts);

}  // namespace tessera
