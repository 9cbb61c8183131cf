#include "launch/data/datasets/span_corruption.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/random.h"

namespace tessera {
namespace {

constexpr int64_t kLongestText = int64_t{1} << 24;

bool corrupted_text_fits(int64_t tokens, int64_t source_length, int64_t seq_length,
                         const SpanCorruptionOptions& options) {
  const NoiseCounts noise = noise_counts(tokens, options);
  return noise.spans <= options.sentinels &&
         tokens - noise.tokens + noise.spans + 1 <= source_length &&
         noise.tokens + noise.spans + 1 <= seq_length;
}

/// Cuts `items` into `segments` of at least one, and writes their lengths to every second place of
/// `lengths` from `place` on. Selection sampling (Knuth, Algorithm S) of the cuts.
void segment(int64_t items, int64_t segments, const RandomKey& key, uint64_t first_bits,
             size_t place, std::vector<int32_t>& lengths) {
  int64_t cuts = segments - 1;
  int32_t length = 1;
  for (int64_t i = 1; i < items; ++i) {
    const uint64_t bits = random_bits(key, first_bits + static_cast<uint64_t>(i));
    const bool is_cut =
        (bits * static_cast<uint64_t>(items - i) >> 32) < static_cast<uint64_t>(cuts);
    if (!is_cut) {
      ++length;
      continue;
    }
    lengths[place] = std::exchange(length, 1);
    place += 2;
    --cuts;
  }
  lengths[place] = length;
}

}  // namespace

NoiseCounts noise_counts(int64_t tokens, const SpanCorruptionOptions& options) {
  require(tokens >= 2, "a text of {} tokens cannot be corrupted: it needs 2", tokens);
  const double wanted = std::round(static_cast<double>(tokens) * options.noise_density);
  const int64_t noise = std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, tokens - 1);
  const double spans = std::round(static_cast<double>(noise) / options.mean_noise_span_length);
  // Each span needs a token of its own and one before it.
  const int64_t most = std::min(noise, tokens - noise);
  return {noise, std::clamp<int64_t>(static_cast<int64_t>(spans), 1, most)};
}

int64_t longest_corrupted_text(int64_t source_length, int64_t seq_length,
                               const SpanCorruptionOptions& options) {
  const auto fits = [&](int64_t tokens) {
    return corrupted_text_fits(tokens, source_length, seq_length, options);
  };
  require(fits(2),
          "span corruption of 2 tokens does not fit: model.source_length is {} and "
          "model.seq_length {}, but both must be at least 3",
          source_length, seq_length);
  // Kept tokens, replaced tokens and spans never fall as the text grows.
  int64_t tokens = 2;
  for (int64_t step = kLongestText / 2; step > 0; step /= 2) {
    if (fits(tokens + step)) tokens += step;
  }
  return tokens;
}

std::vector<int32_t> noise_spans(int64_t tokens, const SpanCorruptionOptions& options,
                                 uint64_t seed, int64_t epoch, int64_t text) {
  const auto [noise, spans] = noise_counts(tokens, options);
  std::vector<int32_t> lengths(2 * static_cast<size_t>(spans));
  const RandomKey key{seed, RandomPurpose::span_corruption, 0, narrow<uint32_t>(epoch)};
  const uint64_t first = static_cast<uint64_t>(text) * 2 * kLongestText;
  segment(tokens - noise, spans, key, first, 0, lengths);
  segment(noise, spans, key, first + kLongestText, 1, lengths);
  return lengths;
}

SpanCorruptionDataset::SpanCorruptionDataset(std::shared_ptr<const IndexedDataset> dataset,
                                             Range tokens, int64_t source_length,
                                             int64_t seq_length, SequenceEnds ends,
                                             bool ends_documents, int32_t first_sentinel,
                                             const SpanCorruptionOptions& options, uint64_t seed)
    : seq_length_(seq_length),
      ends_(ends),
      first_sentinel_(first_sentinel),
      options_(options),
      seed_(seed),
      pieces_(std::move(dataset), tokens,
              longest_corrupted_text(source_length, seq_length, options), ends_documents ? 1 : 0) {}

void SpanCorruptionDataset::fill(int64_t sample, int64_t epoch, Sample& out) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}",
          pieces_.dataset().prefix(), sample, num_samples());
  const Range range = pieces_.piece(sample);
  std::vector<int32_t> text(static_cast<size_t>(range.size()));
  pieces_.dataset().read_tokens(range.begin, text);
  out.clear();
  // A single token has nothing to be guessed from: it is the source, and the target is empty.
  const std::vector<int32_t> lengths =
      text.size() < 2 ? std::vector<int32_t>{1, 0}
                      : noise_spans(range.size(), options_, seed_, epoch, sample);
  auto token = text.begin();
  int32_t sentinel = first_sentinel_ + narrow<int32_t>(options_.sentinels);
  for (size_t i = 0; i < lengths.size(); i += 2) {
    out.source_tokens.insert(out.source_tokens.end(), token, token + lengths[i]);
    token += lengths[i];
    if (lengths[i + 1] == 0) break;
    out.source_tokens.push_back(--sentinel);
    out.targets.push_back(sentinel);
    out.targets.insert(out.targets.end(), token, token + lengths[i + 1]);
    token += lengths[i + 1];
  }
  out.source_tokens.push_back(ends_.end);
  out.targets.push_back(ends_.end);
  out.tokens.assign(1, ends_.start);
  out.tokens.insert(out.tokens.end(), out.targets.begin(), out.targets.end() - 1);
  out.source_lengths.assign(1, narrow<int32_t>(std::ssize(out.source_tokens)));
  out.document_lengths.assign(1, narrow<int32_t>(std::ssize(out.tokens)));
}

std::vector<TextOrigin> SpanCorruptionDataset::origins(int64_t sample, int64_t /*epoch*/) const {
  return {pieces_.origin(sample, 0)};
}

void SpanCorruptionDataset::will_fill(int64_t sample, int64_t /*epoch*/) const {
  const Range text = pieces_.piece(sample);
  pieces_.dataset().will_read_tokens(text.begin, text.size());
}

}  // namespace tessera
