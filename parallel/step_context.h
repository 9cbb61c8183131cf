#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/ops/dropout.h"
#include "core/random.h"
#include "parallel/gradient_reducer.h"

namespace tessera {

/// What a forward and a backward pass of one micro-batch need besides tensors. Layers take their
/// activations from `arena` and keep views of those that their backward reads, until the next
/// forward.
struct StepContext {
  Arena& arena;
  /// Told of each gradient that is final, in the last micro-batch of a step; null in the others.
  GradientReducer* reducer = nullptr;
  /// Whether dropout drops.
  bool training = false;
  uint64_t seed = 0;
  uint32_t step = 0;
  /// Index within the global batch of this micro-batch's first sequence.
  int64_t first_sequence = 0;

  void gradient_is_final(const Parameter& parameter) const {
    if (reducer != nullptr) reducer->add(parameter);
  }

  /// The dropout of a (B, T, C) activation: the same bits on every layout.
  Dropout dropout(double probability, RandomPurpose purpose, int layer, int64_t seq_length) const {
    Dropout result;
    result.probability = training ? static_cast<float>(probability) : 0.0f;
    result.key = {seed, purpose, static_cast<uint32_t>(layer), step};
    result.first_row = first_sequence * seq_length;
    return result;
  }
};

}  // namespace tessera
