#include "launch/data/datasets/text_samples.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/data/sampling/sample_order.h"

namespace tessera {

void TextSamples::add(const Sample& sample, bool truncated) {
  const auto unless_all = [](const std::vector<int32_t>& values, int32_t value) {
    const bool all = std::ranges::all_of(values, [&](int32_t x) { return x == value; });
    return all ? std::span<const int32_t>() : std::span(values);
  };
  tokens_.add(sample.tokens);
  token_types_.add(unless_all(sample.token_types, 0));
  targets_.add(unless_all(sample.targets, kIgnoreTarget));
  document_lengths_.add(sample.document_lengths);
  labels_.add(sample.labels);
  label_values_.add(sample.label_values);
  source_tokens_.add(sample.source_tokens);
  source_lengths_.add(sample.source_lengths);
  num_truncated_ += truncated ? 1 : 0;
  ++size_;
}

void TextSamples::require_samples() const {
  require(size_ > 0, "{}: there is no {}", path_, unit_);
}

void TextSamples::fill(int64_t i, Sample& out) const {
  require(0 <= i && i < size_, "{}: there is no {} {}: there are {}", path_, unit_, i, size_);
  const auto copy = [i](const auto& lists, auto& to) {
    const auto list = lists[i];
    to.assign(list.begin(), list.end());
  };
  out.clear();
  copy(tokens_, out.tokens);
  copy(token_types_, out.token_types);
  copy(targets_, out.targets);
  copy(document_lengths_, out.document_lengths);
  copy(labels_, out.labels);
  copy(label_values_, out.label_values);
  copy(source_tokens_, out.source_tokens);
  copy(source_lengths_, out.source_lengths);
  out.token_types.resize(out.tokens.size(), 0);
  out.targets.resize(out.tokens.size(), kIgnoreTarget);
}

TextDataset::TextDataset(std::shared_ptr<const TextSamples> samples, Range places)
    : samples_(std::move(samples)), places_(places) {
  require(0 <= places.begin && places.begin < places.end && places.end <= samples_->size(),
          "{}: the range of {}s [{}, {}) is empty or not within the file, which has {}",
          samples_->path(), samples_->unit(), places.begin, places.end, samples_->size());
}

int64_t TextDataset::place_of(int64_t sample) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}",
          samples_->path(), sample, num_samples());
  return shuffled_place(samples_->size(), places_.begin + sample);
}

void TextDataset::fill(int64_t sample, int64_t /*epoch*/, Sample& out) const {
  samples_->fill(place_of(sample), out);
}

std::vector<TextOrigin> TextDataset::origins(int64_t sample, int64_t /*epoch*/) const {
  const int64_t place = place_of(sample);
  Sample found;
  samples_->fill(place, found);
  std::vector<TextOrigin> origins;
  for (int64_t text = 0; text < std::ssize(found.document_lengths); ++text) {
    origins.push_back({text, samples_->path(), samples_->unit(), {place, place + 1}});
  }
  return origins;
}

}  // namespace tessera
