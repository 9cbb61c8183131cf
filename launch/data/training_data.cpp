#include "launch/data/training_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/exit_code.h"
#include "core/random.h"
#include "launch/config/values/value_rule.h"
#include "launch/data/datasets/chat_template.h"
#include "launch/data/sample_source.h"
#include "launch/data/sampling/blend_order.h"
#include "launch/data/sampling/blended_dataset.h"
#include "launch/data/sampling/spread_samples.h"
#include "launch/support/text/human_text.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// For messages. A tokenizer that was not named comes from a dataset or a checkpoint.
std::string tokenizer_name(const RunConfig& config, const Tokenizer& tokenizer) {
  return config.data.tokenizer.empty() ? fmt::format("auto ({})", tokenizer.kind())
                                       : config.data.tokenizer;
}

/// The ids that data without a tokenizer may have.
int64_t num_ids(const RunConfig& config) {
  const int64_t sentinels = num_sentinels(config);
  require(sentinels < config.model.vocab_size,
          "model.vocab_size is {}, but span_corruption.sentinels is {}, and they are ids after "
          "those of the data: choose a vocabulary of {} plus the number of ids, or fewer sentinels",
          config.model.vocab_size, sentinels, sentinels);
  return config.model.vocab_size - sentinels;
}

std::shared_ptr<const Tokenizer> open_tokenizer(const RunConfig& config) {
  if (config.data.tokenizer == kNoTokenizer) {
    return std::make_shared<const IdTokenizer>(num_ids(config));
  }
  try {
    return make_tokenizer(config.data.tokenizer);
  } catch (const Error& error) {
    fail("data.tokenizer is {}: {} (`tessera tokenizer train` makes a vocabulary)",
         config.data.tokenizer, error.what());
  }
}

/// Every token needs a row of the embedding.
void check_vocabulary(const RunConfig& config, const Tokenizer& tokenizer) {
  require(tokenizer.vocab_size() <= config.model.vocab_size,
          "model.vocab_size is {}, but data.tokenizer is {}, which has {} tokens: choose {} or "
          "more, or "
          "leave the key out",
          config.model.vocab_size, tokenizer_name(config, tokenizer), tokenizer.vocab_size(),
          tokenizer.vocab_size());
}

/// "cls, sep and mask", or nothing: what the model needs and `special` lacks.
std::string missing_special_tokens(const ModelTraits& traits, const SpecialTokens& special) {
  if (!traits.special_tokens) return "";
  std::vector<std::string> missing;
  if (!special.start) missing.emplace_back("cls");
  if (!special.end) missing.emplace_back("sep");
  if (!special.mask && traits.objective == Objective::masked_lm) missing.emplace_back("mask");
  return fmt::format("{}", fmt::join(missing, ", "));
}

/// Without a tokenizer, the config says which ids the model has and which of them are special.
std::shared_ptr<const Tokenizer> with_special_tokens(const RunConfig& config,
                                                     std::shared_ptr<const Tokenizer> tokenizer) {
  const SpecialTokenIds& given = config.data.special_tokens;
  const auto* ids = dynamic_cast<const IdTokenizer*>(tokenizer.get());
  if (ids == nullptr) {
    require(given.empty(),
            "data.special_tokens is {}, but data.tokenizer is {}, which has its own: leave "
            "special_tokens out",
            SpecialTokenMap{}.write(given), tokenizer_name(config, *tokenizer));
    return tokenizer;
  }
  check_vocabulary(config, *tokenizer);
  auto result = std::make_shared<const IdTokenizer>(num_ids(config),
                                                    given.empty() ? ids->special_ids() : given);
  const ModelTraits traits = traits_of(config.model);
  const std::string missing = missing_special_tokens(traits, result->special());
  require(missing.empty(),
          "data.tokenizer is none, and data.special_tokens is {}, but {} needs the ids of {}: add "
          "them, as in data.special_tokens={{cls: 2, sep: 3, mask: 4}}",
          SpecialTokenMap{}.write(result->special_ids()), traits.name, missing);
  return result;
}

/// Notes a vocabulary with more unused rows than rounding up explains, and what they cost.
void add_vocabulary_note(const RunConfig& config, const Tokenizer& tokenizer,
                         std::vector<std::string>& notes) {
  constexpr int64_t kRoundUp = 128;  // the usual multiple for tensor cores
  const int64_t unused = config.model.vocab_size - tokenizer.vocab_size() - num_sentinels(config);
  if (unused < kRoundUp) return;
  notes.push_back(fmt::format(
      "model.vocab_size is {}, but the tokenizer has {} tokens: the other {} rows of the embedding "
      "are {} parameters that cost memory and time and are never used; a new model without the "
      "key has the tokenizer's size",
      config.model.vocab_size, tokenizer.vocab_size(), unused,
      grouped(unused * config.model.hidden_size)));
}

bool has_part(const DataSection& data, DataPart part) {
  if (part == DataPart::eval) return data.eval || data.eval_fraction > 0.0;
  return part == DataPart::train || data.test_fraction > 0.0;
}

/// Evaluation data has masks of its own.
uint64_t seed_of(const RunConfig& config, DataPart part) {
  const auto seed = static_cast<uint64_t>(config.run.seed);
  return part == DataPart::train ? seed : seed_for(seed, to_string(part));
}

/// Training shuffles samples and notes how much of them the run sees.
enum class DataFor : uint8_t { training, evaluation };

/// Opens the parts of a config's data, and each dataset only once.
class DataOpener {
 public:
  DataOpener(const RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer, DataFor purpose)
      : config_(config), tokenizer_(std::move(tokenizer)), purpose_(purpose) {
    check_vocabulary(config, *tokenizer_);
  }

  /// At most `most` samples, spread evenly.
  std::shared_ptr<const Dataset> open(DataPart part, int64_t most = INT64_MAX) {
    const DataSection& data = config_.data;
    if (part == DataPart::eval && data.eval) {
      return blend(*data.eval, part, most, [](int64_t size) { return Range{0, size}; });
    }
    const auto range = [&](int64_t size) {
      return split_data(size, data.eval_fraction, data.test_fraction).of(part);
    };
    if (part == DataPart::train) return blend(data.train, part, most, range);
    try {
      return blend(data.train, part, most, range);
    } catch (const Error& error) {
      fail("data.{}_fraction is {}: {}", to_string(part),
           part == DataPart::eval ? data.eval_fraction : data.test_fraction, error.what());
    }
  }

  /// The samples of the part that was opened last, whatever their limit.
  int64_t all_samples() const { return all_samples_; }

  /// The datasets of a part that was opened, in the order of Sample::dataset.
  std::vector<EvalDataset> datasets(DataPart part) const {
    const DataSection& data = config_.data;
    const DataBlend& blend = part == DataPart::eval && data.eval ? *data.eval : data.train;
    const std::vector<std::string> names = dataset_names(blend);
    std::vector<EvalDataset> found;
    for (size_t i = 0; i < names.size(); ++i) {
      found.push_back({names[i], sources_.at(blend.parts[i].path)->bytes_per_token()});
    }
    return found;
  }

  /// The parts of the training data, if that was opened.
  std::vector<TrainPart> take_train_parts() { return std::move(train_parts_); }

  /// One value for each opened dataset, by path.
  std::vector<NamedValue> identity() const {
    std::vector<NamedValue> values;
    for (const auto& [path, source] : sources_) {
      values.push_back({fmt::format("the data of {}", path), source->identity()});
    }
    return values;
  }

  /// Form of the messages of the opened data; null if it has none.
  std::shared_ptr<const ChatForm> chat() const {
    for (const auto& [path, source] : sources_) {
      if (auto form = source->chat()) return form;
    }
    return nullptr;
  }

  std::vector<std::string> take_notes() { return std::move(notes_); }

 private:
  const SampleSource& source(const std::string& path) {
    std::unique_ptr<const SampleSource>& source = sources_[path];
    if (!source) source = open_source(config_, tokenizer_, path, notes_);
    return *source;
  }

  /// `range(size)` selects which of a dataset's `size` tokens or texts to use.
  template <typename RangeOf>
  std::shared_ptr<const Dataset> blend(const DataBlend& data, DataPart part, int64_t most,
                                       RangeOf&& range) {
    const uint64_t seed = seed_of(config_, part);
    const bool training = part == DataPart::train && purpose_ == DataFor::training;
    std::vector<double> weights;
    for (const DataBlend::Part& one : data.parts) weights.push_back(one.weight);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<BlendedDataset::Part> parts;
    all_samples_ = 0;
    for (const auto& [path, weight] : data.parts) {
      const SampleSource& opened = source(path);
      const bool alone = data.parts.size() == 1;
      const uint64_t own_seed = alone ? seed : seed_for(seed, fmt::format("part {}", parts.size()));
      parts.push_back(
          {opened.samples(range(opened.size()), {own_seed, training}), weight, std::nullopt});
      all_samples_ += parts.back().samples->num_samples();
      if (training) {
        parts.back().order_seed = own_seed;
        train_parts_.push_back({parts.back().samples->num_samples(), weight / sum});
        note_use(path, train_parts_.back(), alone);
      }
    }
    const bool alone = parts.size() == 1;
    if (alone && (training || most >= all_samples_)) return parts[0].samples;
    if (training) return std::make_shared<const BlendedDataset>(std::move(parts));
    const int64_t count = std::min(most, all_samples_);
    const std::vector<int64_t> turns = BlendOrder(weights).turns(count);
    for (size_t i = 0; i < parts.size(); ++i) {
      std::shared_ptr<const Dataset>& samples = parts[i].samples;
      samples = std::make_shared<const SpreadSamples>(samples, std::max<int64_t>(1, turns[i]));
    }
    if (alone) return parts[0].samples;
    return std::make_shared<const BlendedDataset>(std::move(parts), count);
  }

  /// Notes how much of a dataset the run sees.
  void note_use(const std::string& path, const TrainPart& part, bool alone) {
    const double used = config_.automatic.contains("train.steps")
                            ? config_.train.epochs * static_cast<double>(part.samples)
                            : static_cast<double>(config_.train.steps) *
                                  static_cast<double>(config_.batch.global) * part.share;
    const std::string share =
        alone ? "" : fmt::format("{:.4g}% of the run's samples; ", 100.0 * part.share);
    notes_.push_back(fmt::format("{}: {} samples, {}{:.4g} epochs in the run", path, part.samples,
                                 share, used / static_cast<double>(part.samples)));
  }

  const RunConfig& config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  DataFor purpose_;
  std::map<std::string, std::unique_ptr<const SampleSource>> sources_;
  std::vector<TrainPart> train_parts_;
  std::vector<std::string> notes_;
  int64_t all_samples_ = 0;
};

/// "eval: 20 of 312 batches (6%), spread evenly".
std::string evaluation_note(const RunConfig& config, int64_t all_samples) {
  const int64_t all = ceil_div(all_samples, config.batch.global), batches = config.eval.batches;
  if (batches >= all) return fmt::format("eval: all {} batches of the held-out data", all);
  return fmt::format("eval: {} of {} batches of the held-out data ({:.2g}%), spread evenly",
                     batches, all, 100.0 * static_cast<double>(batches) / static_cast<double>(all));
}

/// Notes settings that are valid, but probably a mistake.
void add_warnings(const RunConfig& config, std::vector<std::string>& notes) {
  if (config.data.eval_fraction > 0.0 && config.eval.interval == 0) {
    notes.push_back(
        fmt::format("data.eval_fraction is {}, but eval.interval is 0: that part of the data is "
                    "held out, but the run does not evaluate on it",
                    config.data.eval_fraction));
  }
  if (!config.data.eval) return;
  for (const DataBlend::Part& part : config.data.eval->parts) {
    const auto is_same = [&](const DataBlend::Part& other) { return other.path == part.path; };
    if (std::ranges::none_of(config.data.train.parts, is_same)) continue;
    notes.push_back(fmt::format(
        "{}: is in both data.train and data.eval, so the run evaluates on training data",
        part.path));
  }
}

/// Prompts are messages if the data has messages.
void add_prompt_note(const RunConfig& config, const ChatTemplate& chat,
                     std::vector<std::string>& notes) {
  for (size_t i = 0; i < config.eval.prompts.size(); ++i) {
    const auto name = chat.token_named_in(config.eval.prompts[i]);
    if (!name) continue;
    notes.push_back(fmt::format(
        "eval.prompts, text {}, contains {}, which is text there: prompts are messages of the "
        "user, which the chat template surrounds; write the message alone",
        i + 1, *name));
    return;
  }
}

}  // namespace

TrainingData open_training_data(const RunConfig& config,
                                std::shared_ptr<const Tokenizer> tokenizer) {
  TrainingData data;
  data.tokenizer =
      with_special_tokens(config, tokenizer ? std::move(tokenizer) : open_tokenizer(config));
  DataOpener opener(config, data.tokenizer, DataFor::training);
  std::string evaluated;
  with_exit_code(ExitCode::data, [&] {
    data.train = opener.open(DataPart::train);
    if (has_part(config.data, DataPart::eval)) {
      data.eval = opener.open(DataPart::eval, config.eval.batches * config.batch.global);
      data.eval_datasets = opener.datasets(DataPart::eval);
      if (config.eval.interval > 0) evaluated = evaluation_note(config, opener.all_samples());
    }
    if (has_part(config.data, DataPart::test)) opener.open(DataPart::test);
    data.choices = open_choices(config.eval.multiple_choice, *data.tokenizer, config.model);
  });
  data.train_parts = opener.take_train_parts();
  data.chat = opener.chat();
  data.identity = opener.identity();
  for (const auto& questions : data.choices) {
    data.identity.push_back(
        {fmt::format("the questions of {}", questions->path()), questions->identity()});
  }
  data.identity.push_back({"the tokenizer", to_string(identity_of(*data.tokenizer))});
  data.notes = opener.take_notes();
  if (!evaluated.empty()) data.notes.push_back(evaluated);
  for (const auto& questions : data.choices) data.notes.push_back(summary_of(*questions));
  add_vocabulary_note(config, *data.tokenizer, data.notes);
  add_warnings(config, data.notes);
  if (data.chat) add_prompt_note(config, ChatTemplate(data.chat, *data.tokenizer), data.notes);
  return data;
}

OpenedPart open_part(RunConfig config, std::shared_ptr<const Tokenizer> tokenizer, DataPart part,
                     std::optional<int64_t> most) {
  require(has_part(config.data, part),
          "the run has no {0} data: data.{0}_fraction is 0, so nothing was held out for it; to "
          "evaluate the training data choose --part train, or another dataset with --data",
          to_string(part));
  config.data.tokenizer.clear();  // a checkpoint's tokenizer has no specification
  DataOpener opener(config, with_special_tokens(config, std::move(tokenizer)), DataFor::evaluation);
  std::shared_ptr<const Dataset> samples = opener.open(part, most.value_or(INT64_MAX));
  OpenedPart opened{std::move(samples), opener.datasets(part), opener.take_notes()};
  if (opened.samples->num_samples() < opener.all_samples()) {
    opened.notes.push_back(fmt::format("{} of {} samples, spread evenly",
                                       opened.samples->num_samples(), opener.all_samples()));
  }
  return opened;
}

}  // namespace tessera
