#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "launch/checkpoint/checkpoint.h"
#include "launch/tools/generate/sampler.h"
#include "models/key_value_cache.h"
#include "models/model.h"

namespace tessera {

/// Continues token sequences with a model from a checkpoint of any layout, in fp32, with its heads
/// split over the ranks of `tp`. All functions are collective over `tp`.
class Generator {
 public:
  /// Throws if the checkpoint's model can not be split over `tp`'s ranks.
  Generator(Checkpoint& checkpoint, Communicator& tp, Device device);

  /// Generates up to `max_tokens` tokens after `prompt` (not empty), calls `emit` with each one,
  /// and ends early when `emit` returns false. When the context is full, the newest half of it goes
  /// on as a prompt. Throws if a prompt's token is not in the vocabulary.
  void generate(std::span<const int32_t> prompt, int64_t max_tokens, const SamplingOptions& options,
                const std::function<bool(int32_t)>& emit);

  const ModelConfig& config() const { return model_.config(); }

 private:
  std::span<const float> logits_after(std::span<const int32_t> tokens);

  ParameterStore store_;
  Model model_;
  std::unique_ptr<Arena> arena_;
  KeyValueCache cache_;
  OwnedTensor tokens_;     // (seq_length), as logits_ in host memory
  OwnedTensor on_device_;  // (seq_length)
  OwnedTensor logits_;     // (vocab_size)
};

}  // namespace tessera
