#pragma once

#include <optional>

#include "models/model_config.h"
#include "models/norm.h"
#include "models/token_batch.h"
#include "parallel/layers/vocab_parallel_embedding.h"

namespace tessera {

/// What goes into the first block: the sum of the embeddings of a token's word, its position (where
/// positions are learned) and its type (BERT's), then BERT's norm, then dropout.
class Embeddings {
 public:
  Embeddings(ParameterStore& store, const ModelConfig& config, Communicator& tp);

  /// tokens, positions and token_types (B, T) int32; positions are read only where the model learns
  /// them, types where it has any. → (B, T, C) in ctx.arena, or (1, n, C) of the rows that this
  /// rank holds (ctx.rows). Keeps the ids.
  Tensor forward(const StepContext& ctx, const Tensor& tokens, const Tensor& positions,
                 const Tensor& token_types);

  /// gradient of the output, shaped like it; it is overwritten. Says that all gradients are final,
  /// the word table's too.
  void backward(const StepContext& ctx, Tensor gradient);

  VocabParallelEmbedding& words() { return words_; }

 private:
  double dropout_;
  VocabParallelEmbedding words_;
  Parameter* positions_ = nullptr;    // (seq_length, C)
  Parameter* token_types_ = nullptr;  // (token_types, C)
  std::optional<Norm> norm_;
  Tensor position_ids_, type_ids_;  // of this rank's rows
};

}  // namespace tessera
