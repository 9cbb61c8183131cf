#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/ops/attention.h"
#include "core/random.h"
#include "parallel/gradient_reducer.h"
#include "parallel/recompute.h"
#include "parallel/sequence_shard.h"

namespace tessera {

/// Context of the forward and backward pass of one micro-batch. Layers allocate activations in
/// `arena` and keep views of those that backward reads in `slot`, until its next forward.
struct StepContext {
  Arena& arena;
  /// Which of the micro-batches in flight this is (InFlight). Each needs memory of its own until
  /// its backward pass.
  int slot = 0;
  /// Receives each final gradient in the last micro-batch of a step; null in other micro-batches.
  GradientReducer* reducer = nullptr;
  /// Whether dropout is active.
  bool training = false;
  Recompute recompute = Recompute::none;
  uint64_t seed = 0;
  uint32_t step = 0;
  /// Index in the global batch of this micro-batch's first sequence.
  int64_t first_sequence = 0;
  /// For captured passes: where dropout reads `step` and `first_sequence` when it runs
  /// (Dropout::rng_offset). Undefined otherwise.
  Tensor rng_offset = {};
  /// Position of each row, over all ranks, in the padded micro-batch.
  PaddedRows padded_rows = {};
  /// This tensor rank's local rows outside the tensor regions. If rows are sharded, an activation
  /// there is (1, n, C) for the n local rows, and `padded_rows` still covers all rows.
  SequenceShard rows = {};

  void gradient_is_final(const Parameter& parameter) const {
    if (reducer != nullptr) reducer->add(parameter);
  }

  /// Dropout of an activation with this rank's local rows, or with the rows `tokens` (as in
  /// Dropout::rows). It has the same bits on every layout.
  Dropout dropout(double probability, RandomPurpose purpose, int layer,
                  const Tensor& tokens) const {
    Dropout result;
    result.probability = training ? static_cast<float>(probability) : 0.0f;
    result.key = {seed, purpose, static_cast<uint32_t>(layer), step};
    result.first_row = first_sequence * padded_rows.seq_length;
    result.rows = tokens;
    result.rng_offset = rng_offset;
    result.sequence_rows = padded_rows.seq_length;
    return result;
  }
  Dropout dropout(double probability, RandomPurpose purpose, int layer) const {
    return dropout(probability, purpose, layer, rows.local_of(padded_rows.index));
  }
};

}  // namespace tessera
