#pragma once

#include <optional>

#include "core/tensor.h"
#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/step_context.h"

namespace tessera {

class Communicator;

/// The R rows of a stack's output that heads read. The last block computes only these behind its
/// attention, which needs the keys and values of all N rows.
struct OutputRows {
  Tensor index;  ///< (R) int32, into all rows: those with a target, then first tokens, maybe again
  int64_t num_targets = 0;
  PaddedRows padded_rows;  ///< of the R rows
  SequenceShard rows;      ///< the same

  /// The context of a pass over these rows, from that over all rows.
  StepContext context(const StepContext& ctx) const;

  /// x (1, n, C), the local rows of all → (1, r, C), the local rows of these, in ctx.arena. `ctx`
  /// is that of all rows. Collective over `tp` if rows are sharded.
  Tensor choose_local(const StepContext& ctx, const Tensor& x, Communicator& tp) const;
  /// Its backward: overwrites dx (1, n, C), given dy (1, r, C).
  void choose_local_backward(const StepContext& ctx, const Tensor& dy, Tensor dx,
                             Communicator& tp) const;

  /// Within a tensor region, where each rank has all rows: x (1, N, K) → (1, R, K) in ctx.arena.
  Tensor choose(const StepContext& ctx, const Tensor& x) const;
  /// Its backward: overwrites dx (1, N, K), given dy (1, R, K).
  void choose_backward(const Tensor& dy, Tensor dx) const;

 private:
  /// Overwrites dx, whose first row is row `first` of all.
  void scatter(const Tensor& dy, Tensor dx, int64_t first) const;
};

/// The rows of a stack's output that a model's heads read.
struct ReadByHeads {
  bool targets = false;       ///< tokens with a target
  bool first_tokens = false;  ///< the first token of each document
  bool all = false;           ///< all tokens

  /// How many of `tokens` rows the last block computes behind its attention. That is all of them if
  /// more than half are read: copies would cost much of the time and memory that they save.
  int64_t count(int64_t tokens, int64_t num_targets, int64_t num_documents) const;
};

ReadByHeads read_by_heads(const ModelConfig& config);

/// The part of a batch that heads read. `batch` has only these R tokens, numbered anew, and each
/// document is its first token. Its other tensors are undefined or those of the whole batch.
struct OutputBatch {
  OutputRows rows;
  TokenBatch batch;
};

/// Returns the tokens of `batch` that are read, in ctx.arena: those with a target, then first
/// tokens. nullopt if all rows are to be computed. `ctx` is that of all rows.
std::optional<OutputBatch> output_batch(const StepContext& ctx, const TokenBatch& batch,
                                        const ReadByHeads& read);

}  // namespace tessera
