#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "core/arena.h"
#include "launch/data/sample.h"
#include "models/model.h"
#include "models/token_batch.h"

namespace tessera {

/// Advice when a GPU runs out of memory, for MemoryUse.
inline constexpr std::string_view kSplitAdvice =
    "start more ranks with `tessera run -np N`, which split the model";

/// A model that generates texts, or is asked about a few texts at a time, by forward passes without
/// dropout, and the memory for its passes: that of a checkpoint (TextModel), or of a training run
/// between two steps (ModelOfRun).
class QueriedModel {
 public:
  virtual ~QueriedModel() = default;

  virtual Model& model() const = 0;
  /// The ranks that share the model.
  virtual Communicator& tp() const = 0;
  const ModelConfig& config() const { return model().config(); }

  /// Runs passes of the caller's own on the meta device, those with the most memory.
  using Passes = std::function<void(Model& model, const StepContext& ctx)>;
  /// Returns memory on the model's device that suffices for `largest`, empty, until the next call.
  virtual Arena& reserve(const Passes& largest) = 0;

  /// Computes a result for a batch of texts.
  using Ask = std::function<Tensor(Model& model, const StepContext& ctx, const TokenBatch& batch)>;

  /// Returns the result of `ask` for the texts, in host memory until the next call. Calls `ask`
  /// twice, first on the meta device to measure its memory. Throws if a text has
  /// more than seq_length tokens or one that is not in the vocabulary. Collective over tp().
  virtual Tensor run(std::span<const Sample> texts, const Ask& ask) = 0;
  Tensor run(const Sample& text, const Ask& ask) { return run({&text, 1}, ask); }
};

/// The context of a pass that reads `length` tokens of each text. With several, it keeps the
/// activations of one block at a time: no backward pass reads them.
inline StepContext generation_context(Arena& arena, int64_t length) {
  StepContext ctx{arena};
  ctx.recompute = length > 1 ? Recompute::block : Recompute::none;
  return ctx;
}

/// Returns a batch of the same shapes without data.
TokenBatch on_meta(TokenBatch batch);

}  // namespace tessera
