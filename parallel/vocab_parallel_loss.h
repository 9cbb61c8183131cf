#pragma once

#include "core/parameter.h"
#include "parallel/communicator.h"
#include "parallel/partition.h"
#include "parallel/step_context.h"

namespace tessera {

/// The output head, tied to a word embedding, and its softmax cross-entropy, with the vocabulary
/// split over the tensor ranks: a rank computes the logits of its own words, and only three numbers
/// a position travel. Positions are taken in chunks, so the logits of all never exist at once.
class VocabParallelLoss {
 public:
  /// Logits in memory at a time: (kChunkRows, Vl).
  static constexpr int64_t kChunkRows = 1024;

  VocabParallelLoss(Parameter& table, const VocabPartition& vocab, Communicator& tp)
      : tp_(tp), vocab_(vocab), table_(table) {}

  /// loss_sum (1) fp64 += the sum over positions of −log p(target), the same on all tensor ranks.
  /// x (N, C), targets (N) int32; kIgnoreTarget counts nothing.
  void loss(const StepContext& ctx, const Tensor& x, const Tensor& targets, Tensor loss_sum);

  /// The same, and with it the gradient of scale × loss: dx (N, C) is written (the sum over the
  /// tensor ranks), the table's gradient is added to. dx may not alias x.
  void loss_and_gradient(const StepContext& ctx, const Tensor& x, const Tensor& targets,
                         float scale, Tensor loss_sum, Tensor dx);

  /// The logits of all words, for sampling: x (N, C) → out (N, V) fp32, whole on every rank.
  void whole_logits(const StepContext& ctx, const Tensor& x, Tensor out);

 private:
  struct Chunk {
    Tensor logits;       // (n, Vl)
    Tensor log_sum_exp;  // (n)
  };

  Chunk forward_chunk(const StepContext& ctx, const Tensor& x, const Tensor& targets,
                      Tensor loss_sum);

  Communicator& tp_;
  VocabPartition vocab_;
  Parameter& table_;
};

}  // namespace tessera
