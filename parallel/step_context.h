#pragma once

#include <cstddef>
#include <cstdint>

#include "core/arena.h"
#include "core/ops/attention.h"
#include "core/random.h"
#include "parallel/gradient_reducer.h"
#include "parallel/recompute.h"
#include "parallel/sequence_shard.h"

namespace tessera {

struct StepContext;

/// Learns which units of parameters (ParameterUnit) a pass reads, to bring their values and to take
/// them away: of each block, around its forward pass and around its backward pass with what it
/// computes again. The other units are read during the whole pass. What the host does then is for
/// StepContext::recorder, if there is one.
class UnitListener {
 public:
  virtual ~UnitListener() = default;
  virtual void begin(const StepContext& ctx, size_t unit) = 0;
  virtual void end(const StepContext& ctx, size_t unit) = 0;
};

/// Context of the forward and backward pass of one micro-batch. Layers allocate activations in
/// `arena` and keep views of those that backward reads in `slot`, until its next forward.
struct StepContext {
  Arena& arena;
  /// Which of the micro-batches in flight this is (InFlight). Each needs memory of its own until
  /// its backward pass.
  int slot = 0;
  /// Receives each final gradient in the last micro-batch of a step; null in other micro-batches.
  GradientReducer* reducer = nullptr;
  PassRecorder* recorder = nullptr;  ///< of a pass that is captured; null otherwise
  UnitListener* units = nullptr;     ///< null: all values stay where they are
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
    if (reducer != nullptr) reducer->add(parameter, recorder);
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

/// The use of a unit by the enclosing scope.
class UnitInUse {
 public:
  UnitInUse(const StepContext& ctx, size_t unit) : ctx_(ctx), unit_(unit) {
    if (ctx.units != nullptr) ctx.units->begin(ctx, unit);
  }
  ~UnitInUse() {
    if (ctx_.units != nullptr) ctx_.units->end(ctx_, unit_);
  }
  UnitInUse(const UnitInUse&) = delete;
  UnitInUse& operator=(const UnitInUse&) = delete;

 private:
  const StepContext& ctx_;
  size_t unit_;
};

}  // namespace tessera
