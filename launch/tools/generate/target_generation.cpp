#include "launch/tools/generate/target_generation.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "launch/data/datasets/text_pairs.h"
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

/// Runs the passes of generation with the most memory.
Tensor largest_passes(Model& model, const StepContext& ctx, const TokenBatch& batch,
                      int64_t beams) {
  const SourceCache source = model.encode(ctx, batch.source);
  ctx.arena.reset();
  const int64_t rows = batch.num_documents() * beams;
  KeyValueCache cache = model.make_cache(rows);
  cache.advance(model.config().seq_length - 1);
  return model.extend(ctx, Tensor(nullptr, {rows, 1}, DType::i32, kMeta), cache, &source);
}

}  // namespace

std::vector<Target> generate_targets(TextModel& model, const Tokenizer& tokenizer,
                                     std::span<const Sample> sources, const TargetOptions& options,
                                     int64_t first, const OnToken& on_token) {
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

  const TextModel::Prepared run =
      model.prepare(sources, [&](Model& dry, const StepContext& ctx, const TokenBatch& batch) {
        return largest_passes(dry, ctx, batch, beams);
      });
  const StepContext ctx{run.arena};
  const SourceCache source = run.model.encode(ctx, run.batch.source);
  const int64_t rows = count * beams, vocab = config.vocab_size;
  KeyValueCache cache = run.model.make_cache(rows);
  const Device device = run.batch.tokens.device();
  const OwnedTensor tokens({rows, 1}, DType::i32), logits({rows, vocab}, DType::f32);
  const OwnedTensor on_device({rows, 1}, DType::i32, device);
  std::vector<int32_t> parents(static_cast<size_t>(rows));
  const std::span<int32_t> next = tokens.tensor.span<int32_t>();
  for (int64_t row = 0; row < rows; ++row) {
    next[static_cast<size_t>(row)] = sources[static_cast<size_t>(row / beams)].tokens[0];
  }
  while (!std::ranges::all_of(targets, &OpenTarget::done)) {
    run.arena.reset();
    copy(tokens.tensor, on_device.tensor);
    copy(run.model.extend(ctx, on_device.tensor, cache, &source), logits.tensor);
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
  const PairEncoder encoder(tokenizer, traits_of(config).source_length, config.seq_length,
                            truncate);
  Sample sample;
  encoder.encode_source(source, where, sample);
  sample.tokens = {encoder.ends().start};
  sample.targets = {encoder.ends().end};
  sample.document_lengths = {1};
  return sample;
}

Sample sample_with_written_target(TextModel& model, const Tokenizer& tokenizer,
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

namespace {

constexpr std::array<std::string_view, 2> kSourceNames = {"source", "target"};
constexpr TextFields kSourceFields = {kSourceNames, 1, "source and target"};

constexpr std::string_view kTargetName = "target";

class TargetPrediction final : public FilePrediction {
 public:
  TargetPrediction(const ModelConfig& config, const Tokenizer& tokenizer,
                   const TargetOptions& options, const FilePredictionOptions& file)
      : tokenizer_(tokenizer), options_(options), format_(file.format) {
    const auto add = [&](std::string_view source, int64_t number) {
      samples_.push_back(source_sample(config, tokenizer, source, file.truncate,
                                       fmt::format("{}:{}", file.input, number)));
    };
    for_each_first_text(file.input, kSourceFields, add);
    require(!samples_.empty(), "{}: there is no text", file.input);
  }

  int64_t size() const override { return std::ssize(samples_); }

  std::string header() const override { return text_header(format_, kTargetName); }

  std::string lines(TextModel& model, Range texts) const override {
    const auto sources = std::span(samples_).subspan(static_cast<size_t>(texts.begin),
                                                     static_cast<size_t>(texts.size()));
    std::string all;
    for (Target& target : generate_targets(model, tokenizer_, sources, options_, texts.begin)) {
      all += text_line(format_, kTargetName, std::move(target.text));
    }
    return all;
  }

 private:
  const Tokenizer& tokenizer_;
  TargetOptions options_;
  PredictionFormat format_;
  std::vector<Sample> samples_;
};

}  // namespace

std::unique_ptr<const FilePrediction> target_prediction(const ModelConfig& config,
                                                        const Tokenizer& tokenizer,
                                                        const TargetOptions& options,
                                                        const FilePredictionOptions& file) {
  return std::make_unique<const TargetPrediction>(config, tokenizer, options, file);
}

}  // namespace tessera
