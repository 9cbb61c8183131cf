#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/arena.h"
#include "core/ops/attention.h"
#include "core/random.h"
#include "parallel/context_cut.h"
#include "parallel/gradient_reducer.h"
#include "parallel/recompute.h"
#include "parallel/sequence_shard.h"

namespace tessera {

class Communicator;
struct StepContext;

/// The use of a block's parameters by a pass.
struct UnitUse {
  size_t unit = 0;
  /// The unit that the pass uses next, if it is known.
  std::optional<size_t> next = {};
  /// Whether it is a backward pass, with what it computes again: gradients are written.
  bool backward = false;
};

/// Learns when a pass uses the parameters of a block, to bring them and to take them away. The
/// other units are used during the whole pass. What the host does then is for
/// StepContext::recorder, if there is one. After an error in a pass, end() is not called.
class UnitListener {
 public:
  virtual ~UnitListener() = default;
  virtual void begin(const StepContext& ctx, const UnitUse& use) = 0;
  virtual void end(const StepContext& ctx, const UnitUse& use) = 0;
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
  /// The context ranks; null unless batches may be cut.
  Communicator* cp = nullptr;
  /// How the rows of the pass are cut over them; null: they are whole.
  const ContextCut* cut = nullptr;

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

}  // namespace tessera
