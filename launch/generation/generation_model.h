#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/arena.h"
#include "models/model.h"

namespace tessera {

/// Advice when a GPU runs out of memory, for MemoryUse.
inline constexpr std::string_view kSplitAdvice =
    "start more ranks with `tessera run -np N`, which split the model";

/// A model that generates texts and the memory for its passes: that of a checkpoint (TextModel), or
/// of a training run between two steps (Trainer).
class GenerationModel {
 public:
  virtual ~GenerationModel() = default;

  virtual Model& model() const = 0;
  /// The ranks that share the model.
  virtual Communicator& tp() const = 0;

  /// Runs passes of the caller's own on the meta device, those with the most memory.
  using Passes = std::function<void(Model& model, const StepContext& ctx)>;
  /// Returns memory on the model's device that suffices for `largest`, empty, until the next call.
  virtual Arena& reserve(const Passes& largest) = 0;

  const ModelConfig& config() const { return model().config(); }
};

/// The context of a pass that reads `length` tokens of each text. With several, it keeps the
/// activations of one block at a time: no backward pass reads them.
inline StepContext generation_context(Arena& arena, int64_t length) {
  StepContext ctx{arena};
  ctx.recompute = length > 1 ? Recompute::block : Recompute::none;
  return ctx;
}

}  // namespace tessera
