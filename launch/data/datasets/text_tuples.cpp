#include "launch/data/datasets/text_tuples.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/data/sampling/sample_order.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"anchor", "positive", "negative"};

}  // namespace

const TextFields kTupleFields = {kNames, 2, "anchor, positive and negative"};

std::optional<TupleColumns> tuple_columns(const std::string& path) {
  const std::vector<std::string> names = text_field_names(path);
  const auto has = [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  if (!has(kNames[0])) return std::nullopt;
  return TupleColumns{has(kNames[2])};
}

TextTuples::TextTuples(const std::string& path, TupleUse use, const ClassificationEncoder& encoder)
    : path_(path),
      seq_length_(encoder.seq_length()),
      texts_(use.hard_negatives ? 3 : 2),
      queries_(use.symmetric_loss ? 2 : 1) {
  const bool negatives = use.hard_negatives;
  Sample sample;
  for_each_text_record(path, kTupleFields, [&](const TextRecord& tuple) {
    const bool has_negative = tuple.texts[2].has_value();
    require(has_negative == negatives,
            "{}:{}: there is {} negative, but model.hard_negatives is {}: choose {}", path,
            tuple.number, negatives ? "no" : "a", negatives, !negatives);
    begins_.push_back(std::ssize(tokens_));
    bool truncated = false;
    for (size_t i = 0; i < static_cast<size_t>(texts_); ++i) {
      const std::string where = fmt::format("{}:{}, {}", path, tuple.number, kNames[i]);
      truncated = encoder.encode(*tuple.texts[i], {}, where, sample) || truncated;
      tokens_.insert(tokens_.end(), sample.tokens.begin(), sample.tokens.end());
      lengths_.push_back(static_cast<int32_t>(sample.tokens.size()));
    }
    num_truncated_ += truncated ? 1 : 0;
  });
  require(size() > 0, "{}: there is no text", path_);
}

void TextTuples::fill(int64_t i, Sample& out) const {
  require(0 <= i && i < size(), "{}: there is no tuple {}: there are {}", path_, i, size());
  out.clear();
  const auto lengths = lengths_.begin() + i * texts_;
  out.document_lengths.assign(lengths, lengths + texts_);
  int64_t length = 0;
  for (const int32_t of_text : out.document_lengths) length += of_text;
  const auto first = tokens_.begin() + begins_[static_cast<size_t>(i)];
  out.tokens.assign(first, first + length);
  out.targets.assign(out.tokens.size(), kIgnoreTarget);
  out.labels.assign(static_cast<size_t>(texts_), kIgnoreTarget);
  std::fill_n(out.labels.begin(), queries_, 0);
}

TextTupleDataset::TextTupleDataset(std::shared_ptr<const TextTuples> tuples, Range places)
    : tuples_(std::move(tuples)), places_(places) {
  require(0 <= places.begin && places.begin < places.end && places.end <= tuples_->size(),
          "{}: the range of tuples [{}, {}) is empty or not within the file, which has {}",
          tuples_->path(), places.begin, places.end, tuples_->size());
}

void TextTupleDataset::fill(int64_t sample, int64_t /*epoch*/, Sample& out) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}",
          tuples_->path(), sample, num_samples());
  tuples_->fill(tuple_of(sample), out);
}

int64_t TextTupleDataset::tuple_of(int64_t sample) const {
  return shuffled_place(tuples_->size(), places_.begin + sample);
}

std::vector<TextOrigin> TextTupleDataset::origins(int64_t sample, int64_t /*epoch*/) const {
  const int64_t tuple = tuple_of(sample);
  std::vector<TextOrigin> origins;
  for (int64_t text = 0; text < tuples_->texts_of_sample(); ++text) {
    origins.push_back({text, tuples_->path(), "tuple", {tuple, tuple + 1}});
  }
  return origins;
}

}  // namespace tessera
