#include "launch/data/datasets/text_pairs.h"

#include <array>
#include <optional>
#include <utility>

#include "core/error.h"
#include "launch/data/sampling/sample_order.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 2> kPairNames = {"source", "target"};
constexpr uint64_t kPairOrderSeed = 0;

std::vector<int32_t> encode_text(const Tokenizer& tokenizer, std::string_view text,
                                 std::string_view name, std::string_view where) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& error) {
    fail("{}, {}: {}", where, name, error.what());
  }
}

/// Cuts a text to `most` tokens. Returns whether it was cut.
bool fit(std::vector<int32_t>& tokens, std::string_view name, int64_t most, std::string_view key,
         bool truncate, std::string_view where) {
  require(!tokens.empty(), "{}: the {} has no tokens", where, name);
  if (std::ssize(tokens) <= most) return false;
  require(truncate,
          "{}: the {} has {} tokens, but {} is {}, which leaves room for {}: shorten it, truncate "
          "it (data.truncate=true in training, --truncate in generate), or train with a larger {}",
          where, name, tokens.size(), key, most + 1, most, key);
  tokens.resize(static_cast<size_t>(most));
  return true;
}

}  // namespace

const TextFields kPairFields = {kPairNames, 2, "source and target"};

std::optional<SequenceEnds> find_sequence_ends(const Tokenizer& tokenizer) {
  std::optional<int32_t> end = tokenizer.end_of_document();
  if (!end) end = tokenizer.special().end;
  if (!end) return std::nullopt;
  return SequenceEnds{tokenizer.special().padding.value_or(*end), *end};
}

SequenceEnds sequence_ends(const Tokenizer& tokenizer) {
  const std::optional<SequenceEnds> ends = find_sequence_ends(tokenizer);
  require(ends.has_value(),
          "tokenizer {} has no token that ends a text, which an encoder-decoder needs: choose one "
          "with an end-of-document token or [SEP]",
          tokenizer.kind());
  return *ends;
}

PairEncoder::PairEncoder(const Tokenizer& tokenizer, int64_t source_length, int64_t seq_length,
                         bool truncate)
    : tokenizer_(tokenizer),
      source_length_(source_length),
      seq_length_(seq_length),
      truncate_(truncate),
      ends_(sequence_ends(tokenizer)) {
  require(source_length >= 2 && seq_length >= 2,
          "model.source_length is {} and model.seq_length {}, but an encoder-decoder needs 2 or "
          "more of each",
          source_length, seq_length);
}

bool PairEncoder::encode_source(std::string_view source, std::string_view where,
                                Sample& out) const {
  return add_source(encode_text(tokenizer_, source, "source", where), where, out);
}

bool PairEncoder::add_source(std::vector<int32_t> tokens, std::string_view where,
                             Sample& out) const {
  const bool truncated =
      fit(tokens, "source", source_length_ - 1, "model.source_length", truncate_, where);
  out.source_tokens = std::move(tokens);
  out.source_tokens.push_back(ends_.end);
  out.source_lengths.assign(1, static_cast<int32_t>(out.source_tokens.size()));
  return truncated;
}

bool PairEncoder::encode(std::string_view source, std::string_view target, std::string_view where,
                         Sample& out) const {
  out.clear();
  bool truncated = encode_source(source, where, out);
  out.targets = encode_text(tokenizer_, target, "target", where);
  truncated = fit(out.targets, "target", seq_length_ - 1, "model.seq_length", truncate_, where) ||
              truncated;
  out.tokens.assign(1, ends_.start);
  out.tokens.insert(out.tokens.end(), out.targets.begin(), out.targets.end());
  out.targets.push_back(ends_.end);
  out.document_lengths.assign(1, static_cast<int32_t>(out.tokens.size()));
  return truncated;
}

TextPairs::TextPairs(const std::string& path, const PairEncoder& encoder)
    : path_(path), seq_length_(encoder.seq_length()), ends_(encoder.ends()), pairs_{{0, 0}} {
  Sample sample;
  for_each_text_record(path, kPairFields, [&](const TextRecord& pair) {
    const std::string where = fmt::format("{}:{}", path, pair.number);
    num_truncated_ += encoder.encode(*pair.texts[0], *pair.texts[1], where, sample) ? 1 : 0;
    sources_.insert(sources_.end(), sample.source_tokens.begin(), sample.source_tokens.end());
    targets_.insert(targets_.end(), sample.targets.begin(), sample.targets.end());
    pairs_.push_back({sources_.size(), targets_.size()});
  });
  require(size() > 0, "{}: there is no pair of texts", path_);
}

void TextPairs::fill(int64_t i, Sample& out) const {
  require(0 <= i && i < size(), "{}: there is no pair {}: there are {}", path_, i, size());
  const Begins begin = pairs_[static_cast<size_t>(i)], end = pairs_[static_cast<size_t>(i) + 1];
  out.clear();
  out.source_tokens.assign(sources_.begin() + static_cast<std::ptrdiff_t>(begin.source),
                           sources_.begin() + static_cast<std::ptrdiff_t>(end.source));
  out.targets.assign(targets_.begin() + static_cast<std::ptrdiff_t>(begin.target),
                     targets_.begin() + static_cast<std::ptrdiff_t>(end.target));
  out.tokens.assign(1, ends_.start);
  out.tokens.insert(out.tokens.end(), out.targets.begin(), out.targets.end() - 1);
  out.source_lengths.assign(1, static_cast<int32_t>(out.source_tokens.size()));
  out.document_lengths.assign(1, static_cast<int32_t>(out.tokens.size()));
}

TextPairDataset::TextPairDataset(std::shared_ptr<const TextPairs> pairs, Range places)
    : pairs_(std::move(pairs)), places_(places) {
  require(0 <= places.begin && places.begin < places.end && places.end <= pairs_->size(),
          "{}: the range of pairs [{}, {}) is empty or not within the file, which has {}",
          pairs_->path(), places.begin, places.end, pairs_->size());
}

void TextPairDataset::fill(int64_t sample, int64_t /*epoch*/, Sample& out) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}",
          pairs_->path(), sample, num_samples());
  pairs_->fill(pair_of(sample), out);
}

int64_t TextPairDataset::pair_of(int64_t sample) const {
  return permuted(kPairOrderSeed, 0, pairs_->size(), places_.begin + sample);
}

std::vector<TextOrigin> TextPairDataset::origins(int64_t sample, int64_t /*epoch*/) const {
  const int64_t pair = pair_of(sample);
  return {{0, pairs_->path(), "pair", {pair, pair + 1}}};
}

}  // namespace tessera
