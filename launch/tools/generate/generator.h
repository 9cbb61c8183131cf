#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "launch/checkpoint/checkpoint.h"
#include "launch/tools/generate/sampler.h"
#include "models/layers/attention/key_value_cache.h"
#include "models/model.h"

namespace tessera {

/// Continues token sequences with a model from a checkpoint of any layout, in fp32, with its heads
/// split over the ranks of `tp`. All functions are collective over `tp`.
class Generator {
 public:
  /// Throws if the checkpoint's model cannot be split over `tp`'s ranks.
  Generator(Checkpoint& checkpoint, Communicator& tp, Device device);

  /// Generates up to `max_tokens` tokens after `prompt` (not empty), calls `emit` with each, and
  /// stops early when `emit` returns false. When the context is full, its newest half, or as much
  /// as model.attention_prefix, becomes the new prompt. Throws if a prompt's token is not in the
  /// vocabulary, or if the prompt is shorter than the prefix.
  void generate(std::span<const int32_t> prompt, int64_t max_tokens, const SamplingOptions& options,
                const std::function<bool(int32_t)>& emit);

  const ModelConfig& config() const { return model_.config(); }

 private:
  std::span<const float> logits_after(std::span<const int32_t> tokens);

  ParameterStore store_;
  Model model_;
  std::unique_ptr<Arena> arena_;
  KeyValueCache cache_;
  OwnedTensor tokens_;     // (seq_length), in host memory like logits_
  OwnedTensor on_device_;  // (seq_length)
  OwnedTensor logits_;     // (vocab_size)
};

}  // namespace tessera
