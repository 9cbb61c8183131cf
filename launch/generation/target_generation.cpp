#include "launch/generation/target_generation.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "launch/data/datasets/text_pairs.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/device_batch.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "models/architecture.h"
#include "models/layers/attention/key_value_cache.h"
#include "models/layers/attention/source_cache.h"

namespace tessera {
namespace {

/// A text that is being written: by a search over several beginnings, or by sampling.
class OpenTarget {
 public:
  OpenTarget(const TargetOptions& options, const Tokenizer& tokenizer, const TextEnds& ends,
             std::span<const int32_t> start, int64_t number, const OnToken& on_token)
      : tokenizer_(tokenizer), stops_(ends.stops), on_token_(on_token) {
    if (options.beams.beams == 1) {
      sampled_.emplace(options.sampling, tokenizer, ends, start, number);
      return;
    }
    BeamTexts texts = {ends.tokens.front(), ends.max_tokens, start};
    if (!stops_.empty()) {
      texts.ends = [this](std::span<const int32_t> text) {
        return stops_.occur_in(tokenizer_.decode(text));
      };
    }
    search_.emplace(options.beams, texts);
  }

  bool done() const { return search_ ? search_->done() : sampled_->done(); }

  /// Continues with logits (beams, V), and sets the next tokens of the beams and the beams that
  /// they continue, counted from `first`.
  void advance(std::span<const float> logits, int32_t first, std::span<int32_t> tokens,
               std::span<int32_t> parents) {
    if (search_) {
      search_->advance(logits);
      std::ranges::copy(search_->last_tokens(), tokens.begin());
      std::ranges::transform(search_->parents(), parents.begin(),
                             [&](int32_t parent) { return first + parent; });
      return;
    }
    sampled_->advance(logits);
    tokens[0] = sampled_->tokens().back();
    parents[0] = first;
    if (on_token_) on_token_(*sampled_);
  }

  Target target() {
    if (sampled_) {
      const std::span<const int32_t> tokens = sampled_->new_tokens();
      return {{tokens.begin(), tokens.end()}, sampled_->text().finish()};
    }
    Target target{search_->best(), ""};
    target.text = stops_.cut(tokenizer_.decode(target.tokens));
    return target;
  }

 private:
  const Tokenizer& tokenizer_;
  const StopStrings& stops_;
  const OnToken& on_token_;
  std::optional<BeamSearch> search_;
  std::optional<SampledText> sampled_;
};

/// Source texts in host memory and on the device of a model.
class SourceBatch {
 public:
  SourceBatch(const ModelConfig& config, std::span<const Sample> sources)
      : shape_(shape_of(config, std::ssize(sources))), buffers_(shape_) {
    for (const Sample& source : sources) {
      buffers_.append(source, config.vocab_size, "the text", 0);
    }
  }

  static BatchShape shape_of(const ModelConfig& config, int64_t sources) {
    BatchShape shape{sources, 1};  // the first token of each target
    shape.source_length = traits_of(config).source_length;
    return shape;
  }

  SourceTokens on_meta() const {
    TokenBatch batch = buffers_.batch();
    for (Tensor* tensor : tensors_of(batch)) {
      *tensor = Tensor(nullptr, tensor->shape(), tensor->dtype(), kMeta);
    }
    return batch.source;
  }

  SourceTokens on_device(Device device) {
    return device_.emplace(shape_, device).upload(buffers_).source;
  }

 private:
  BatchShape shape_;
  BatchBuffers buffers_;
  std::optional<DeviceBatch> device_;
};

SourceCache encode(Model& model, Arena& arena, const SourceTokens& sources) {
  arena.reset();
  return model.encode(generation_context(arena, sources.num_tokens()), sources);
}

/// Runs the passes of generation with the most memory. Returns the bytes of the caches.
size_t largest_passes(Model& model, Arena& arena, const SourceTokens& sources, int64_t rows) {
  const SourceCache source = encode(model, arena, sources);
  arena.reset();
  KeyValueCache cache = model.make_cache(rows);
  cache.advance(model.config().seq_length - 1);
  const Tensor token(nullptr, {rows, 1}, DType::i32, kMeta);
  model.extend(generation_context(arena, 1), token, cache, &source);
  return cache.bytes() + source.bytes();
}

PairEncoder source_encoder(const ModelConfig& config, const Tokenizer& tokenizer, bool truncate) {
  return {tokenizer, traits_of(config).source_length, config.seq_length, truncate};
}

/// A sample of which the decoder has read the first token.
Sample first_of_target(SequenceEnds ends) {
  Sample sample;
  sample.tokens = {ends.start};
  sample.targets = {ends.end};
  sample.document_lengths = {1};
  return sample;
}

}  // namespace

std::vector<Target> generate_targets(QueriedModel& model, const Tokenizer& tokenizer,
                                     std::span<const Sample> sources, const TargetOptions& options,
                                     int64_t first, const OnToken& on_token) {
  const MemoryUse use("", kSplitAdvice);
  const ModelConfig& config = model.config();
  const int64_t beams = options.beams.beams;
  // The decoder reads the first token and all of the text but its last token.
  const int64_t limit = config.seq_length;
  const int64_t most = options.max_tokens == 0 ? limit : std::min(options.max_tokens, limit);
  const TextEnds ends = {{sequence_ends(tokenizer).end}, most, options.stops};
  const auto count = static_cast<int64_t>(sources.size());
  std::deque<OpenTarget> targets;  // which stay where they are
  for (int64_t i = 0; i < count; ++i) {
    targets.emplace_back(options, tokenizer, ends, sources[static_cast<size_t>(i)].tokens,
                         first + i, on_token);
  }

  const int64_t rows = count * beams, vocab = config.vocab_size;
  SourceBatch batch(config, sources);
  Arena& arena = model.reserve([&](Model& dry, const StepContext& ctx) {
    largest_passes(dry, ctx.arena, batch.on_meta(), rows);
  });
  const Device device = arena.device();
  const SourceCache source = encode(model.model(), arena, batch.on_device(device));
  KeyValueCache cache = model.model().make_cache(rows);
  const StepContext ctx = generation_context(arena, 1);
  const OwnedTensor tokens({rows, 1}, DType::i32), logits({rows, vocab}, DType::f32);
  const OwnedTensor on_device({rows, 1}, DType::i32, device);
  std::vector<int32_t> parents(static_cast<size_t>(rows));
  const std::span<int32_t> next = tokens.tensor.span<int32_t>();
  for (int64_t row = 0; row < rows; ++row) {
    next[static_cast<size_t>(row)] = sources[static_cast<size_t>(row / beams)].tokens[0];
  }
  while (!std::ranges::all_of(targets, &OpenTarget::done)) {
    arena.reset();
    copy(tokens.tensor, on_device.tensor);
    copy(model.model().extend(ctx, on_device.tensor, cache, &source), logits.tensor);
    for (int64_t i = 0; i < count; ++i) {
      OpenTarget& target = targets[static_cast<size_t>(i)];
      const auto begin = static_cast<size_t>(i * beams), width = static_cast<size_t>(beams);
      const auto of_target = std::span(parents).subspan(begin, width);
      for (size_t beam = 0; beam < width; ++beam) {
        of_target[beam] = static_cast<int32_t>(begin + beam);
      }
      if (target.done()) continue;  // its rows are computed on and ignored
      target.advance(logits.tensor.slice(i * beams, (i + 1) * beams).span<float>(),
                     static_cast<int32_t>(begin), next.subspan(begin, width), of_target);
    }
    if (beams > 1) cache.reorder(parents);
  }
  std::vector<Target> written;
  for (OpenTarget& target : targets) written.push_back(target.target());
  return written;
}

Sample source_sample(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view source,
                     bool truncate, std::string_view where) {
  const PairEncoder encoder = source_encoder(config, tokenizer, truncate);
  Sample sample = first_of_target(encoder.ends());
  encoder.encode_source(source, where, sample);
  return sample;
}

Sample source_sample_of_ids(const ModelConfig& config, const Tokenizer& tokenizer,
                            std::string_view ids, bool truncate, std::string_view where) {
  const PairEncoder encoder = source_encoder(config, tokenizer, truncate);
  Sample sample = first_of_target(encoder.ends());
  encoder.add_source(parse_ids(ids, config.vocab_size, where), where, sample);
  return sample;
}

Sample sample_with_written_target(QueriedModel& model, const Tokenizer& tokenizer,
                                  std::string_view source, std::string_view where) {
  const ModelConfig& config = model.config();
  Sample sample = source_sample(config, tokenizer, source, false, where);
  TargetOptions greedy;
  greedy.sampling.vocab_size = tokenizer.vocab_size();
  sample.targets = generate_targets(model, tokenizer, {&sample, 1}, greedy)[0].tokens;
  // A text that reaches the limit has no end.
  if (std::ssize(sample.targets) < config.seq_length) {
    sample.targets.push_back(sequence_ends(tokenizer).end);
  }
  sample.tokens.insert(sample.tokens.end(), sample.targets.begin(), sample.targets.end() - 1);
  sample.document_lengths = {static_cast<int32_t>(sample.tokens.size())};
  return sample;
}

size_t dry_target(Model& model, Arena& arena) {
  TokenBatch batch = full_batch_on_meta(SourceBatch::shape_of(model.config(), 1));
  keep_documents(batch, 1);
  return largest_passes(model, arena, batch.source, 1);
}

}  // namespace tessera
