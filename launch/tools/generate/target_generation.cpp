#include "launch/tools/generate/target_generation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/random.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/data/datasets/text_pairs.h"
#include "launch/support/files/mapped_file.h"
#include "models/architecture.h"
#include "models/layers/attention/key_value_cache.h"
#include "models/layers/attention/source_cache.h"

namespace tessera {
namespace {

/// A text that is being written: by a search over `beams` beginnings, or by sampling.
class Target {
 public:
  Target(const TargetOptions& options, std::optional<int32_t> end, int64_t most, int64_t number)
      : most_(most), end_(end) {
    if (!options.sampling) {
      search_.emplace(options.beams, end, most);
      return;
    }
    SamplingOptions sampling = *options.sampling;
    sampling.seed = seed_for(sampling.seed, fmt::format("text {}", number));
    sampler_.emplace(sampling);
  }

  bool done() const { return search_ ? search_->done() : done_; }

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
    const int32_t token = sampler_->choose(logits, text_.size());
    tokens[0] = token;
    parents[0] = first;
    done_ = token == end_;
    if (!done_) text_.push_back(token);
    done_ = done_ || std::ssize(text_) == most_;
  }

  std::vector<int32_t> text() const { return search_ ? search_->best() : text_; }

 private:
  int64_t most_;
  std::optional<int32_t> end_;
  std::optional<BeamSearch> search_;
  std::optional<Sampler> sampler_;
  std::vector<int32_t> text_;
  bool done_ = false;
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

std::vector<std::vector<int32_t>> generate_targets(TextModel& model,
                                                   std::span<const Sample> sources,
                                                   const TargetOptions& options,
                                                   std::optional<int32_t> end, int64_t first) {
  const ModelConfig& config = model.config();
  const int64_t beams = options.sampling ? 1 : options.beams.beams;
  // The decoder reads the first token and all of the text but its last token.
  const int64_t limit = config.seq_length;
  const int64_t most = options.max_tokens == 0 ? limit : std::min(options.max_tokens, limit);
  const auto count = static_cast<int64_t>(sources.size());
  std::vector<Target> targets;
  for (int64_t i = 0; i < count; ++i) targets.emplace_back(options, end, most, first + i);

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
  while (!std::ranges::all_of(targets, &Target::done)) {
    run.arena.reset();
    copy(tokens.tensor, on_device.tensor);
    copy(run.model.extend(ctx, on_device.tensor, cache, &source), logits.tensor);
    for (int64_t i = 0; i < count; ++i) {
      Target& target = targets[static_cast<size_t>(i)];
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
  std::vector<std::vector<int32_t>> texts;
  for (const Target& target : targets) texts.push_back(target.text());
  return texts;
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
  const SequenceEnds ends = sequence_ends(tokenizer);
  TargetOptions greedy;
  greedy.beams.vocab_size = tokenizer.vocab_size();
  sample.targets = generate_targets(model, {&sample, 1}, greedy, ends.end)[0];
  // A text that reaches the limit has no end.
  if (std::ssize(sample.targets) < config.seq_length) sample.targets.push_back(ends.end);
  sample.tokens.insert(sample.tokens.end(), sample.targets.begin(), sample.targets.end() - 1);
  sample.document_lengths = {static_cast<int32_t>(sample.tokens.size())};
  return sample;
}

namespace {

constexpr std::array<std::string_view, 2> kSourceNames = {"source", "target"};
constexpr TextFields kSourceFields = {kSourceNames, 1, "source and target"};

std::string on_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

class TargetPrediction final : public FilePrediction {
 public:
  TargetPrediction(const ModelConfig& config, const Tokenizer& tokenizer,
                   const TargetOptions& options, const FilePredictionOptions& file)
      : tokenizer_(tokenizer), options_(options), format_(file.format) {
    const auto add = [&](std::string_view source, int64_t number) {
      samples_.push_back(source_sample(config, tokenizer, source, file.truncate,
                                       fmt::format("{}:{}", file.input, number)));
    };
    if (file.input.ends_with(".txt")) {
      const MappedFile mapped(file.input);
      LineReader lines(mapped);
      while (lines.next()) add(lines.line(), lines.number());
    } else {
      for_each_text_record(file.input, kSourceFields,
                           [&](const TextRecord& record) { add(*record.texts[0], record.number); });
    }
    require(!samples_.empty(), "{}: there is no text", file.input);
  }

  int64_t size() const override { return std::ssize(samples_); }

  std::string header() const override { return format_ == PredictionFormat::tsv ? "target\n" : ""; }

  std::string lines(TextModel& model, Range texts) const override {
    const auto sources = std::span(samples_).subspan(static_cast<size_t>(texts.begin),
                                                     static_cast<size_t>(texts.size()));
    std::string all;
    for (const std::vector<int32_t>& tokens :
         generate_targets(model, sources, options_, sequence_ends(tokenizer_).end, texts.begin)) {
      const std::string text = tokenizer_.decode(tokens);
      all += format_ == PredictionFormat::tsv
                 ? on_one_line(text)
                 : Json{{"target", text}}.dump(-1, ' ', false, Json::error_handler_t::replace);
      all += "\n";
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
