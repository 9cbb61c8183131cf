#include "launch/data/datasets/text_tuples.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/data/datasets/labeled_lines.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/data/sampling/sample_order.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

constexpr std::array<const char*, 3> kNames = {"anchor", "positive", "negative"};
constexpr std::string_view kKnown = "anchor, positive and negative";
constexpr uint64_t kOrderSeed = 0;

bool is_known(std::string_view name) { return std::ranges::find(kNames, name) != kNames.end(); }

/// The texts of a line, by their place in kNames.
using Texts = std::array<std::optional<std::string_view>, 3>;

TextTuple tuple_of(int64_t number, const Texts& texts) {
  return {number, *texts[0], *texts[1], texts[2]};
}

void read_jsonl(LineReader& lines, const std::function<void(const TextTuple&)>& visit) {
  bool negatives = false;
  while (lines.next()) {
    const std::string where = lines.where();
    const Json object = parse_json_line(lines, kKnown);
    for (const auto& [key, value] : object.items()) {
      require(is_known(key), "{}: has a field {}, but only {} are allowed", where, quote(key),
              kKnown);
      require(value.is_string(), "{}: \"{}\" must be a string, but is a {}", where, key,
              value.type_name());
    }
    Texts texts;
    for (size_t i = 0; i < kNames.size(); ++i) {
      const auto found = object.find(kNames[i]);
      if (found != object.end()) texts[i] = found->get_ref<const std::string&>();
      require(texts[i] || i == 2, "{}: there is no \"{}\"", where, kNames[i]);
    }
    if (lines.number() == 1) negatives = texts[2].has_value();
    require(texts[2].has_value() == negatives,
            "{}: there is {} \"negative\", unlike in line 1: all lines must have it, or none",
            where, negatives ? "no" : "a");
    visit(tuple_of(lines.number(), texts));
  }
}

/// The places of kNames among the columns.
std::array<std::optional<size_t>, 3> read_header(const LineReader& lines, size_t& count) {
  const std::vector<std::string_view> names = split(lines.line(), '\t');
  count = names.size();
  std::array<std::optional<size_t>, 3> columns;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto known = std::ranges::find(kNames, names[i]);
    require(known != kNames.end(),
            "{}: column {} is {}, but the first line must name the columns anchor and positive, "
            "and negative for hard negatives, separated by tabs",
            lines.where(), i + 1, quote(names[i]));
    std::optional<size_t>& column = columns[static_cast<size_t>(known - kNames.begin())];
    require(!column, "{}: the column {} appears twice", lines.where(), names[i]);
    column = i;
  }
  for (size_t i = 0; i < 2; ++i) {
    require(columns[i].has_value(), "{}: there is no column {}", lines.where(), kNames[i]);
  }
  return columns;
}

void read_tsv(LineReader& lines, const std::function<void(const TextTuple&)>& visit) {
  if (!lines.next()) return;
  size_t count = 0;
  const auto columns = read_header(lines, count);
  while (lines.next()) {
    const std::vector<std::string_view> fields = split(lines.line(), '\t');
    require(fields.size() == count,
            "{}: there are {} columns, but line 1 names {}: text must have no tabs", lines.where(),
            fields.size(), count);
    Texts texts;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i]) texts[i] = fields[*columns[i]];
    }
    visit(tuple_of(lines.number(), texts));
  }
}

}  // namespace

void for_each_text_tuple(const std::string& path,
                         const std::function<void(const TextTuple&)>& visit) {
  require(is_labeled_file(path),
          "{}: a file of anchors and positives must have a name that ends in .jsonl or .tsv", path);
  const MappedFile file(path);
  LineReader lines(file);
  path.ends_with(".jsonl") ? read_jsonl(lines, visit) : read_tsv(lines, visit);
}

std::optional<TupleColumns> tuple_columns(const std::string& path) {
  if (!is_labeled_file(path)) return std::nullopt;
  std::vector<std::string> names;
  try {
    const MappedFile file(path);
    LineReader lines(file);
    if (!lines.next()) return std::nullopt;
    if (path.ends_with(".jsonl")) {
      const Json object = parse_json_line(lines, kKnown);
      for (const auto& item : object.items()) names.push_back(item.key());
    } else {
      for (const std::string_view name : split(lines.line(), '\t')) names.emplace_back(name);
    }
  } catch (const Error&) {
    return std::nullopt;
  }
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
  for_each_text_tuple(path, [&](const TextTuple& tuple) {
    require(tuple.negative.has_value() == negatives,
            "{}:{}: there is {} negative, but model.hard_negatives is {}: choose {}", path,
            tuple.number, negatives ? "no" : "a", negatives, !negatives);
    begins_.push_back(std::ssize(tokens_));
    bool truncated = false;
    const Texts texts = {tuple.anchor, tuple.positive, tuple.negative};
    for (size_t i = 0; i < static_cast<size_t>(texts_); ++i) {
      const std::string where = fmt::format("{}:{}, {}", path, tuple.number, kNames[i]);
      truncated = encoder.encode(*texts[i], {}, where, sample) || truncated;
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
  tuples_->fill(permuted(kOrderSeed, 0, tuples_->size(), places_.begin + sample), out);
}

}  // namespace tessera
