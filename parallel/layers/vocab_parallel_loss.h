#pragma once

#include <string>

#include "core/ops/factor.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/layers/partition.h"
#include "parallel/step_context.h"

namespace tessera {

/// The output head, tied to a word embedding, and its softmax cross-entropy, with the vocabulary
/// split over the tensor ranks: a rank computes the logits of its own words, and only three numbers
/// a position travel. Positions are taken in chunks, so the logits of all never exist at once.
class VocabParallelLoss {
 public:
  /// Logits in memory at a time: (kChunkRows, Vl). On a GPU fewer rows would not give every
  /// multiprocessor a tile of the product with C columns, and the table's fp32 gradient, which each
  /// chunk reads and writes whole, would take as long as the chunk's products. The CPU has the
  /// same, so that a dry run need not know which device it is for.
  static constexpr int64_t kChunkRows = 4096;

  VocabParallelLoss(Parameter& table, const VocabPartition& vocab, Communicator& tp)
      : tp_(tp), vocab_(vocab), table_(table) {}

  /// Gives each word a bias of its own, `name` (V), which starts at zero.
  void declare_bias(ParameterStore& store, const std::string& name);

  /// loss_sum (1) fp64 += the sum over positions of −log p(target), the same on all tensor ranks,
  /// and `correct` (1) fp64, where defined, += how many targets have the largest logit.
  /// x (N, C), targets (N) int32; kIgnoreTarget counts nothing.
  void loss(const StepContext& ctx, const Tensor& x, const Tensor& targets, Tensor loss_sum,
            Tensor correct);

  /// The same sum of losses, and with it the gradient of scale × loss: dx (N, C) is written (the
  /// sum over the tensor ranks), the table's and the bias's gradients are added to. dx may not
  /// alias x. The caller says when the table's is final; the bias's is.
  void loss_and_gradient(const StepContext& ctx, const Tensor& x, const Tensor& targets,
                         const Factor& scale, Tensor loss_sum, Tensor dx);

  /// The logits of all words, for sampling: x (N, C) → out (N, V) fp32, whole on every rank.
  void whole_logits(const StepContext& ctx, const Tensor& x, Tensor out);

 private:
  struct Chunk {
    Tensor logits;       // (n, Vl)
    Tensor log_sum_exp;  // (n)
  };

  Chunk forward_chunk(const StepContext& ctx, const Tensor& x, const Tensor& targets,
                      Tensor loss_sum, Tensor correct);
  Tensor bias_value() const { return bias_ != nullptr ? bias_->value : Tensor(); }

  Communicator& tp_;
  VocabPartition vocab_;
  Parameter& table_;
  Parameter* bias_ = nullptr;
};

}  // namespace tessera
