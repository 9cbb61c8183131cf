#pragma once

#include <functional>
#include <span>

#include "launch/data/sample.h"
#include "launch/generation/generation_model.h"
#include "models/token_batch.h"

namespace tessera {

/// A model that is asked about a few texts at a time, by forward passes without dropout: that of a
/// checkpoint (TextModel), or of a training run between two steps (ModelOfRun). Collective over
/// tp().
class QueriedModel : public GenerationModel {
 public:
  /// Computes a result for a batch of texts.
  using Ask = std::function<Tensor(Model& model, const StepContext& ctx, const TokenBatch& batch)>;

  /// Returns the result of `ask` for the texts, in host memory until the next call. Calls `ask`
  /// twice, first on the meta device to measure its memory. Throws if a text has more than
  /// seq_length tokens or one that is not in the vocabulary.
  virtual Tensor run(std::span<const Sample> texts, const Ask& ask) = 0;
  Tensor run(const Sample& text, const Ask& ask) { return run({&text, 1}, ask); }
};

/// Returns a batch of the same shapes without data.
TokenBatch on_meta(TokenBatch batch);

}  // namespace tessera
