#include "launch/tools/generate/generator.h"

#include <algorithm>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "launch/checkpoint/attention_mask_file.h"
#include "launch/checkpoint/model_state.h"
#include "launch/tools/predict/text_model.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// Peak memory of a prompt of seq_length tokens, or of one more token.
size_t dry_run_peak(const ModelConfig& config, Communicator& tp) {
  ParameterStore store;
  Model model(config, store, tp);
  store.allocate(kMeta, DType::f32, StoreFor::inference);
  Arena arena(kMeta);
  KeyValueCache cache = model.make_cache(1);
  for (const int64_t positions : {config.seq_length, int64_t{1}}) {
    cache.clear();
    if (positions < config.seq_length) cache.advance(1);
    arena.reset();
    model.extend(StepContext{arena}, Tensor(nullptr, {1, positions}, DType::i32, kMeta), cache);
    if (config.seq_length == 1) break;
  }
  return arena.peak();
}

ModelConfig decoder_of(const Checkpoint& checkpoint) {
  ModelConfig config = model_of(checkpoint);
  require_objective(config, Objective::causal_lm, checkpoint.path().string());
  return config;
}

}  // namespace

Generator::Generator(Checkpoint& checkpoint, Communicator& tp, Device device)
    : model_(decoder_of(checkpoint), store_, tp),
      cache_((store_.allocate(device, DType::f32, StoreFor::inference), model_.make_cache(1))),
      tokens_({config().seq_length}, DType::i32),
      on_device_({config().seq_length}, DType::i32, device),
      logits_({config().vocab_size}, DType::f32) {
  load_weights(checkpoint, store_);
  arena_ = std::make_unique<Arena>(device, dry_run_peak(config(), tp));
}

std::span<const float> Generator::logits_after(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), tokens_.tensor.data<int32_t>());
  const Tensor row = on_device_.tensor.slice(0, count);
  copy(tokens_.tensor.slice(0, count), row);
  arena_->reset();
  const Tensor logits = model_.extend(StepContext{*arena_}, row.view({1, count}), cache_);
  copy(logits.view({config().vocab_size}), logits_.tensor);
  return logits_.tensor.span<float>();
}

void Generator::generate(std::span<const int32_t> prompt, int64_t max_tokens,
                         const SamplingOptions& options, const std::function<bool(int32_t)>& emit) {
  require(!prompt.empty(), "the prompt has no tokens: give at least one");
  for (const int32_t token : prompt) {
    require(token >= 0 && token < config().vocab_size,
            "the prompt has token {}, but the model's vocabulary is 0 to {}", token,
            config().vocab_size - 1);
  }
  const int64_t prefix = config().attention_prefix;
  require(std::ssize(prompt) >= prefix,
          "the prompt has {} tokens, but the first {} tokens of a text see each other "
          "(model.attention_prefix), so the model predicts only those after them: give a prompt of "
          "at least {} tokens",
          prompt.size(), prefix, prefix);
  const auto context = static_cast<size_t>(config().seq_length);
  Sampler sampler(options);
  std::vector<int32_t> history(prompt.begin(), prompt.end());
  size_t unseen = std::min(history.size(), context);
  cache_.clear();
  for (int64_t i = 0; i < max_tokens; ++i) {
    if (cache_.length() + static_cast<int64_t>(unseen) > config().seq_length) {
      cache_.clear();
      unseen = std::max<size_t>({1, context / 2, static_cast<size_t>(prefix)});
    }
    const auto fresh = std::span<const int32_t>(history).last(unseen);
    const int32_t token = sampler.choose(logits_after(fresh), static_cast<uint64_t>(i));
    if (!emit(token)) return;
    history.push_back(token);
    unseen = 1;
  }
}

}  // namespace tessera
