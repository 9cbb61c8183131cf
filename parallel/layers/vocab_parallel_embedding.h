#pragma once

#include <string>

#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/layers/partition.h"
#include "parallel/step_context.h"

namespace tessera {

/// Word embeddings whose rows are split over the tensor ranks. A rank looks up the words that it
/// holds, zeros stand for the others, and of the ranks' sum each gets the n tokens that it holds
/// (ctx.rows).
class VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(ParameterStore& store, const std::string& name, int64_t vocab_size,
                         int64_t hidden_size, float init_stddev, Communicator& tp);

  /// ids (B, T) int32 of all tokens → (B, T, C), or (1, n, C), in ctx.arena. Keeps ids.
  Tensor forward(const StepContext& ctx, const Tensor& ids);

  /// dout as what forward gave. Adds to the table's gradient. The caller says when that is final (a
  /// tied head adds to it too).
  void backward(const StepContext& ctx, const Tensor& dout);

  Parameter& table() const { return *table_; }  // (V, C)
  const VocabPartition& vocab() const { return vocab_; }

 private:
  Communicator& tp_;
  VocabPartition vocab_;
  Parameter* table_;
  Tensor ids_;
};

}  // namespace tessera
