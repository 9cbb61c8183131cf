#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/config/load_config.h"
#include "launch/data/training_data.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/json.h"
#include "launch/support/text/table.h"
#include "launch/support/text/utf8.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tools/inspect/inspect.h"
#include "launch/train/start/derive_config.h"
#include "models/architecture.h"

namespace tessera {
namespace {

using Ids = std::span<const int32_t>;

std::string lines_of_ids(const char* name, Ids ids, const Tokenizer* tokenizer) {
  std::vector<std::string> shown;
  std::vector<int32_t> known;
  for (const int32_t id : ids) {
    shown.push_back(id == kIgnoreTarget ? "-" : fmt::format("{}", id));
    if (id >= 0 && tokenizer != nullptr && id < tokenizer->vocab_size()) known.push_back(id);
  }
  std::string text = description_line(name, fmt::format("{}", fmt::join(shown, " ")));
  if (tokenizer == nullptr || is_none(*tokenizer)) return text;
  return text + description_line("  as text", Json(valid_utf8(tokenizer->decode(known))).dump());
}

/// Takes the first `count` of `values`; none if there are none.
template <typename T>
std::span<const T> take(std::span<const T>& values, int64_t count) {
  const auto taken = values.first(std::min(values.size(), static_cast<size_t>(count)));
  values = values.subspan(taken.size());
  return taken;
}

}  // namespace

std::string describe_ids(const std::vector<int32_t>& ids, const Tokenizer* tokenizer) {
  return lines_of_ids("ids", ids, tokenizer);
}

std::string describe_sample(const std::filesystem::path& config_file, int64_t number) {
  const DerivedConfig derived = derive_config(load_config(config_file), 1, DeriveFor::training);
  const TrainingData data = open_training_data(derived.config, derived.tokenizer);
  const int64_t count = data.train->num_samples();
  require(number < count, "inspect: --sample is {}, but the run has {} samples: choose 0 to {}",
          number, count, count - 1);
  Sample sample;
  data.train->fill(number, /*epoch=*/0, sample);
  const std::vector<TextOrigin> origins = data.train->origins(number, 0);
  const Tokenizer* tokenizer = data.tokenizer.get();

  std::string text =
      fmt::format("sample {} of {}, as in the first epoch: {} tokens in {} documents\n", number,
                  grouped(count), sample.tokens.size(), sample.document_lengths.size());
  Ids tokens = sample.tokens, targets = sample.targets, sources = sample.source_tokens;
  std::span<const float> values = sample.label_values;
  const auto documents = std::ssize(sample.document_lengths);
  for (int64_t i = 0; i < documents; ++i) {
    const auto index = static_cast<size_t>(i);
    text += fmt::format("document {}\n", i);
    for (const TextOrigin& origin : origins) {
      if (origin.document == i) text += description_line("from", to_string(origin));
    }
    if (index < sample.source_lengths.size()) {
      text += lines_of_ids("source", take(sources, sample.source_lengths[index]), tokenizer);
    }
    const Ids own = take(targets, sample.document_lengths[index]);
    const Ids ids = take(tokens, sample.document_lengths[index]);
    if (sample.patches.empty()) text += lines_of_ids("ids", ids, tokenizer);
    const auto is_target = [](int32_t id) { return id != kIgnoreTarget; };
    if (std::ranges::any_of(own, is_target)) {
      const bool are_tokens = !traits_of(derived.config.model).token_labels;
      text += lines_of_ids("targets", own, are_tokens ? tokenizer : nullptr);
    }
    if (!values.empty()) {
      text += description_line(
          "labels",
          fmt::format("{}",
                      fmt::join(take(values, std::ssize(sample.label_values) / documents), " ")));
    } else if (index < sample.labels.size() && is_target(sample.labels[index])) {
      text += description_line("label", fmt::format("{}", sample.labels[index]));
    }
  }
  return text;
}

}  // namespace tessera
