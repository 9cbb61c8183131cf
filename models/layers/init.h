#pragma once

#include <cmath>

#include "models/architecture.h"
#include "parallel/layers/column_parallel_linear.h"

namespace tessera {

/// GPT-2 scales the initial weights of projections that end in a residual sum by 1/sqrt(2 L),
/// because 2 L branches add up (Radford et al., 2019, section 2.3). BERT normalizes every sum and
/// needs no scaling.
inline float residual_init_stddev(const ModelConfig& config) {
  if (!architecture_of(config.kind).scaled_residual_init)
    return static_cast<float>(config.init_stddev);
  return static_cast<float>(config.init_stddev /
                            std::sqrt(2.0 * static_cast<double>(config.num_layers)));
}

/// A linear layer between activations that grow with the model's width. µP assumes that inner sizes
/// (MLP, all heads) have the same ratio to the width as in the base model.
inline LinearSpec hidden_linear(const ModelConfig& config, LinearSpec spec) {
  spec.role = WidthRole::hidden;
  spec.width_mult = config.width_mult();
  return spec;
}

}  // namespace tessera
