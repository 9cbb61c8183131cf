#pragma once

#include <optional>
#include <string>

#include "models/layers/norm.h"
#include "models/layers/patch_projection.h"
#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/layers/vocab_parallel_embedding.h"

namespace tessera {

/// One of a model's embeddings; an encoder–decoder has two, which share the word table.
struct EmbeddingsSpec {
  std::string name = {};               ///< prefix of the other tables: "encoder."
  int dropout_id = 0;                  ///< tells their random numbers apart
  VocabParallelEmbedding* words = {};  ///< null: declare a word table
};

/// The input of the first block: the sum of the word, position (if learned) and token type (BERT)
/// embeddings, followed by BERT's norm and dropout. For images, a projection of patches takes the
/// place of words, and the token types are the class token and the projection's bias.
class Embeddings {
 public:
  Embeddings(ParameterStore& store, const ModelConfig& config, Communicator& tp,
             const EmbeddingsSpec& spec = {});

  /// tokens, positions and token_types (B, T) int32 → (B, T, C) in ctx.arena, or the local rows (1,
  /// n, C) if rows are sharded (ctx.rows). Ignores positions unless the model learns them, and
  /// token_types unless it has any. For images, tokens are the patches (1, N, D) fp32. Saves the
  /// ids.
  Tensor forward(const StepContext& ctx, const Tensor& tokens, const Tensor& positions,
                 const Tensor& token_types);

  /// Overwrites `gradient`, which is that of the output. Marks all gradients as final, but
  /// that of the word table only if it is not shared.
  void backward(const StepContext& ctx, Tensor gradient);

  /// Throws if tokens are patches.
  VocabParallelEmbedding& words();

 private:
  double dropout_;
  int dropout_id_;
  bool owns_words_;
  std::optional<VocabParallelEmbedding> words_;
  std::optional<PatchProjection> patches_;
  Parameter* positions_ = nullptr;    // (seq_length, C)
  Parameter* token_types_ = nullptr;  // (token_types, C)
  std::optional<Norm> norm_;
  InFlight<Tensor> position_ids_, type_ids_;  // of the local rows
};

}  // namespace tessera
