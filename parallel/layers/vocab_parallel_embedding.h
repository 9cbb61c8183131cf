#pragma once

#include <string>

#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/in_flight.h"
#include "parallel/layers/partition.h"
#include "parallel/step_context.h"

namespace tessera {

/// Declares a table (V, C) with a row for each entry of a vocabulary, of which this rank has the
/// shard `vocab`: an embedding, or a head of its own.
Parameter& declare_vocab_table(ParameterStore& store, const std::string& name, int64_t vocab_size,
                               int64_t hidden_size, float init_stddev, const VocabPartition& vocab,
                               WidthRole role);

/// Word embeddings with rows sharded over the tensor ranks. A rank looks up the tokens in its shard
/// and uses zeros for all others. The ranks' results are summed, and each rank gets its n local
/// tokens (ctx.rows).
class VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(ParameterStore& store, const std::string& name, int64_t vocab_size,
                         int64_t hidden_size, float init_stddev, Communicator& tp);

  /// ids (B, T) int32 of all tokens → (B, T, C), or (1, n, C) with sequence parallelism, in
  /// ctx.arena. Stores ids for backward.
  Tensor forward(const StepContext& ctx, const Tensor& ids);

  /// Accumulates into the table's gradient. dout has the shape of forward's output. The caller
  /// marks the gradient as final, because a tied head accumulates into it too.
  void backward(const StepContext& ctx, const Tensor& dout);

  Parameter& table() const { return *table_; }  // (V, C)
  const VocabPartition& vocab() const { return vocab_; }

 private:
  Communicator& tp_;
  VocabPartition vocab_;
  Parameter* table_;
  InFlight<Tensor> ids_;
};

}  // namespace tessera
