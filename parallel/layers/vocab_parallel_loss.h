#pragma once

#include <string>

#include "core/ops/scalar.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/layers/partition.h"
#include "parallel/layers/target_scores.h"
#include "parallel/step_context.h"

namespace tessera {

/// The output head, whose `table` may be that of a word embedding, and its softmax cross-entropy,
/// with the vocabulary sharded over the tensor ranks. A rank computes the logits of its own shard;
/// ranks exchange only three numbers per position. Positions are processed in chunks, so the logits
/// of all positions never exist at once.
class VocabParallelLoss {
 public:
  /// Positions per chunk; the logits in memory are (kChunkRows, Vl). On a GPU, fewer rows would
  /// leave multiprocessors without a tile of the product with C columns, and each chunk reads and
  /// writes the table's whole fp32 gradient. The CPU uses the same value, so that a dry run does
  /// not depend on the device.
  static constexpr int64_t kChunkRows = 8192;

  VocabParallelLoss(Parameter& table, const VocabPartition& vocab, Communicator& tp)
      : tp_(tp), vocab_(vocab), table_(table) {}

  /// Adds a bias per vocabulary entry, `name` (V), initialized to zero.
  void declare_bias(ParameterStore& store, const std::string& name);

  /// loss_sum (1) fp64 += the sum over positions of −log p(target), the same on all tensor ranks.
  /// If defined, `correct` (1) fp64 += the number of targets that have the largest logit. x (N, C),
  /// targets (N) int32; positions with kIgnoreTarget are skipped. If defined, overwrites `each`
  /// with the scores of each position, which are meaningless without a target.
  void loss(const StepContext& ctx, const Tensor& x, const Tensor& targets, Tensor loss_sum,
            Tensor correct, const TargetScores& each = {});

  /// Computes loss() and the gradient of scale × loss. Overwrites dx (N, C) with the sum over the
  /// tensor ranks; accumulates into the gradients of the table and the bias. dx must not alias x.
  /// Marks the bias's gradient as final; the caller marks the table's.
  void loss_and_gradient(const StepContext& ctx, const Tensor& x, const Tensor& targets,
                         const Scalar& scale, Tensor loss_sum, Tensor dx);

  /// The logits of the whole vocabulary, for sampling: x (N, C) → out (N, V) fp32, the same on
  /// every rank.
  void whole_logits(const StepContext& ctx, const Tensor& x, Tensor out);

 private:
  struct Chunk {
    Tensor logits;                          // (n, Vl)
    Tensor statistics;                      // (3, n), in which:
    Tensor row_max, row_sum, target_logit;  // (n)
    Tensor log_sum_exp = {};                // (n)
  };

  /// Allocates a chunk and computes its logits.
  Chunk make_chunk(const StepContext& ctx, const Tensor& x) const;
  /// Computes a chunk's log_sum_exp and adds its loss to loss_sum. If defined, overwrites `margins`
  /// (n), and adds to `correct`.
  Chunk forward_chunk(const StepContext& ctx, const Tensor& x, const Tensor& targets,
                      Tensor loss_sum, Tensor correct, Tensor margins);
  /// Computes a chunk's loss as forward_chunk() does, then replaces the logits by their gradient.
  Tensor chunk_gradient(const StepContext& ctx, const Tensor& x, const Tensor& targets,
                        const Scalar& scale, Tensor loss_sum);
  Tensor bias_value() const { return bias_ != nullptr ? bias_->value() : Tensor(); }

  Communicator& tp_;
  VocabPartition vocab_;
  Parameter& table_;
  Parameter* bias_ = nullptr;
};

}  // namespace tessera
