#pragma once

#include <memory>
#include <vector>

#include "core/ops/attention.h"
#include "core/range.h"
#include "parallel/communicators/communicator.h"
#include "parallel/step_context.h"

namespace tessera {

/// Rows of all context ranks, or of this rank's halo, and sums of their gradients, in buffers of
/// ctx.arena. Each call is collective over ctx.cp.
class ContextRows {
 public:
  /// For W columns of this rank's `rows` rows of a cut batch. With `halo`, only the rows of its
  /// ContextCut::Halo are exchanged, and all others are zeros. All arguments must outlive this.
  ContextRows(const StepContext& ctx, const ContextCut& cut, int64_t rows, int64_t columns,
              DType dtype, bool halo = false);

  /// This rank's rows (n, W), to be written before gather() and read after finish_sum().
  const Tensor& own() const { return own_; }

  /// Starts to gather the rows.
  void gather();
  /// Waits for it, and returns the N rows in the order of the batch, (N, W) in ctx.arena.
  Tensor finish_gather();

  /// Starts the sum of `gradients` (N, W) of all ranks. Overwrites the gathered rows, but not what
  /// finish_gather() returned.
  void sum(const Tensor& gradients);
  /// Waits until own() has this rank's rows of the sum.
  void finish_sum();

 private:
  /// Starts to send the rows `from` and to receive the rows `to`, each by rank.
  void exchange(const Tensor& from, const std::vector<int64_t>& sends, const Tensor& to,
                const std::vector<int64_t>& receives);

  const StepContext& ctx_;
  const ContextCut& cut_;
  const ContextCut::Halo* halo_;  // null: all rows
  Tensor sent_, received_;        // of the halo, by rank
  Tensor all_;                    // (ranks × share, W), by rank
  Tensor share_;                  // (share, W), this rank's part of all_
  Tensor own_;                    // (n, W), its rows without padding
  std::unique_ptr<PendingCollective> pending_;
};

/// Self-attention of a context rank's queries to the keys of all context ranks. Key-value heads are
/// exchanged in two halves, so that the second travels while attention to the first is computed.
class ContextAttention {
 public:
  /// Starts to gather keys and values of qkv (1, n, Hl + 2 Kl, D), of this rank's rows. `options`
  /// has all of AttentionMemory but key_values. All arguments must outlive this, and an
  /// Arena::Scope around it ends what it allocates.
  /// `halo`: the mask hides all keys but those of the halo.
  ContextAttention(const StepContext& ctx, const Tensor& qkv, const AttentionOptions& options,
                   bool halo);

  /// Writes out (1, n, Hl, D) and log_sum_exp (1, Hl, n), as attention_forward() does.
  void forward(Tensor out, Tensor log_sum_exp);

  /// Overwrites dqkv and adds to dposition_bias, if it is defined, as attention_backward() does.
  void backward(const Tensor& dout, const Tensor& out, const Tensor& log_sum_exp, Tensor dqkv,
                Tensor dposition_bias);

 private:
  /// Heads that are exchanged together.
  struct Part {
    Range queries, key_values;
    ContextRows rows;
  };

  /// Copies the keys and values of a part between its rows and those of `heads`, (1, n, Hl + 2 Kl,
  /// D).
  void load(const Part& part) const;
  void store(const Part& part, const Tensor& heads) const;
  /// The keys and values of a part (1, N, 2 K, D). Starts to gather those of the next one.
  Tensor take(size_t i);
  /// The heads `range` of x (1, n, H, D), copied.
  Tensor heads_of(const Tensor& x, Range range) const;
  AttentionOptions options_of(const Part& part, const Tensor& key_values) const;
  /// Those of log_sum_exp (1, Hl, n).
  static Tensor log_sum_exp_of(const Part& part, const Tensor& log_sum_exp);

  const StepContext& ctx_;
  const Tensor& qkv_;
  const AttentionOptions& options_;
  AttentionHeads heads_;
  std::vector<Part> parts_;
};

}  // namespace tessera
