#include "launch/data/datasets/bert_pair_dataset.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/random.h"
#include "launch/data/datasets/dataset_origins.h"

namespace tessera {
namespace {

constexpr int64_t kPairSpecials = 3;  // [CLS], and [SEP] twice
constexpr int64_t kFewest = 2;        // text tokens: one of A and one of B
constexpr int kLongestBits = 26;      // log2 of the number of random words to shorten a text

/// Random streams of RandomPurpose::sentence_pairs.
enum Stream : uint32_t { kChoice, kLength, kShortenA, kShortenB };

/// Maps bits to [0, n).
int64_t scaled(uint32_t bits, int64_t n) {
  return static_cast<int64_t>(uint64_t{bits} * static_cast<uint64_t>(n) >> 32);
}

/// Returns the number of heads in `n` coin tosses.
int64_t count_heads(const RandomKey& key, int64_t sample, int64_t n) {
  int64_t heads = 0;
  uint64_t word = static_cast<uint64_t>(sample) << kLongestBits;
  for (; n > 0; n -= 32, ++word) {
    const uint32_t bits = random_bits(key, word);
    heads += std::popcount(n >= 32 ? bits : bits & ((uint32_t{1} << n) - 1));
  }
  return heads;
}

}  // namespace

BertPairDataset::BertPairDataset(std::shared_ptr<const IndexedDataset> dataset, Range tokens,
                                 int64_t seq_length, const VocabularyTraits& traits,
                                 const BertDataOptions& options, uint64_t seed)
    : dataset_(std::move(dataset)),
      range_(tokens),
      seq_length_(seq_length),
      short_sequence_probability_(options.short_sequence_probability),
      seed_(seed),
      masking_(traits, options.masking, seed) {
  require(seq_length >= kPairSpecials + kFewest,
          "seq_length is {}, but must be at least {} for sentence pairs: [CLS], a token, [SEP], a "
          "token and [SEP]",
          seq_length, kPairSpecials + kFewest);
  require(0.0 <= short_sequence_probability_ && short_sequence_probability_ <= 1.0,
          "the probability of short sequences is {}, but must be 0 to 1",
          short_sequence_probability_);
  require(0 <= tokens.begin && tokens.begin <= tokens.end && tokens.end <= dataset_->num_tokens(),
          "{}: tokens [{}, {}) are not within the dataset, which has {}", dataset_->prefix(),
          tokens.begin, tokens.end, dataset_->num_tokens());
  add_documents();
  for (size_t d = 0; d < documents_.size(); ++d) add_chunks(static_cast<int64_t>(d));
  require(documents_.size() >= 2,
          "{}: tokens [{}, {}) have whole sentences of {} documents, but sentence pairs need at "
          "least two, because a random second sentence comes from another document: prepare the "
          "data with more documents, or set model.next_sentence=false",
          dataset_->prefix(), tokens.begin, tokens.end, documents_.size());
  require(!chunks_.empty(),
          "{}: none of the {} documents in tokens [{}, {}) has two sentences, but sentence pairs "
          "need them: prepare the data with `tessera prepare --documents paragraph --sentences "
          "line`, or set model.next_sentence=false",
          dataset_->prefix(), documents_.size(), tokens.begin, tokens.end);
}

int64_t BertPairDataset::sentence_end(int64_t sentence) const {
  return dataset_->sequence_start(sentence) + dataset_->sequence_length(sentence);
}

Range BertPairDataset::tokens_of(Range sentences) const {
  return {dataset_->sequence_start(sentences.begin), sentence_end(sentences.end - 1)};
}

/// Drops leading and trailing sentences that are empty or not within the range.
Range BertPairDataset::trimmed(Range sentences) const {
  const auto unwanted = [&](int64_t sentence) {
    return dataset_->sequence_length(sentence) == 0 ||
           dataset_->sequence_start(sentence) < range_.begin || sentence_end(sentence) > range_.end;
  };
  while (!sentences.empty() && unwanted(sentences.begin)) ++sentences.begin;
  while (!sentences.empty() && unwanted(sentences.end - 1)) --sentences.end;
  return sentences;
}

void BertPairDataset::add_documents() {
  if (range_.empty()) return;
  const int64_t last = dataset_->document_at(range_.end - 1);
  for (int64_t document = dataset_->document_at(range_.begin); document <= last; ++document) {
    const Range sentences = trimmed(dataset_->document_sequences(document));
    if (!sentences.empty()) documents_.push_back(sentences);
  }
}

void BertPairDataset::add_chunks(int64_t document) {
  const Range sentences = documents_[static_cast<size_t>(document)];
  int64_t left = 0;  // non-empty sentences
  for (int64_t s = sentences.begin; s < sentences.end; ++s) {
    left += dataset_->sequence_length(s) > 0 ? 1 : 0;
  }
  if (left < 2) return;
  int64_t begin = sentences.begin, count = 0, length = 0;
  for (int64_t s = sentences.begin; s < sentences.end; ++s) {
    if (dataset_->sequence_length(s) == 0) {
      if (count == 0) begin = s + 1;
      continue;
    }
    length += dataset_->sequence_length(s);
    ++count;
    --left;
    // A single last sentence joins the previous chunk.
    const bool full = count >= 2 && left >= 2 && length >= target_length(num_samples());
    if (!full && left > 0) continue;
    chunks_.push_back({document, {begin, s + 1}});
    begin = s + 1;
    count = length = 0;
  }
}

int64_t BertPairDataset::target_length(int64_t sample) const {
  const int64_t most = seq_length_ - kPairSpecials;
  const auto bits =
      philox({seed_, RandomPurpose::sentence_pairs, kLength, 0}, static_cast<uint64_t>(sample));
  const double draw = static_cast<double>(bits[0]) * 0x1p-32;
  if (draw >= short_sequence_probability_) return most;
  return kFewest + scaled(bits[1], most - kFewest + 1);
}

BertPairDataset::Pair BertPairDataset::choose(int64_t sample, int64_t epoch) const {
  const Chunk& chunk = chunks_[static_cast<size_t>(sample)];
  const auto bits = philox({seed_, RandomPurpose::sentence_pairs, kChoice, narrow<uint32_t>(epoch)},
                           static_cast<uint64_t>(sample));
  const int64_t split = chunk.sentences.begin + 1 + scaled(bits[1], chunk.sentences.size() - 1);
  Pair pair;
  pair.a = tokens_of({chunk.sentences.begin, split});
  pair.random = bits[0] >> 31 != 0;
  if (pair.random) {
    pair.b = random_text(chunk.document, bits[2], bits[3], target_length(sample) - pair.a.size());
  } else {
    pair.b = tokens_of({split, chunk.sentences.end});
  }
  return pair;
}

/// Returns consecutive sentences of a random document other than `not_from`, starting with a random
/// one: at least one, and more until there are `length` tokens.
Range BertPairDataset::random_text(int64_t not_from, uint32_t document_bits, uint32_t sentence_bits,
                                   int64_t length) const {
  int64_t document = scaled(document_bits, static_cast<int64_t>(documents_.size()) - 1);
  if (document >= not_from) ++document;
  const Range sentences = documents_[static_cast<size_t>(document)];
  int64_t sentence = sentences.begin + scaled(sentence_bits, sentences.size());
  Range text{dataset_->sequence_start(sentence), dataset_->sequence_start(sentence)};
  // The last sentence is not empty, so there is text from any sentence on.
  for (; sentence < sentences.end && text.size() < std::max<int64_t>(length, 1); ++sentence) {
    text.end = sentence_end(sentence);
  }
  return text;
}

void BertPairDataset::shorten(int64_t sample, int64_t epoch, Pair& pair) const {
  const int64_t excess = pair.a.size() + pair.b.size() - (seq_length_ - kPairSpecials);
  if (excess <= 0) return;
  // Shorten the longer text until both have the same length, then alternate, starting with B.
  const int64_t longer = pair.a.size() - pair.b.size();
  const int64_t from_longer = std::min(excess, std::abs(longer));
  const int64_t by_turns = excess - from_longer;
  const int64_t from_a = (longer > 0 ? from_longer : 0) + by_turns / 2;
  const int64_t from_b = excess - from_a;
  const auto cut = [&](Range& text, int64_t tokens, Stream stream) {
    const RandomKey key{seed_, RandomPurpose::sentence_pairs, stream, narrow<uint32_t>(epoch)};
    const int64_t front = count_heads(key, sample, tokens);
    text = {text.begin + front, text.end - (tokens - front)};
  };
  cut(pair.a, from_a, kShortenA);
  cut(pair.b, from_b, kShortenB);
}

void BertPairDataset::fill(int64_t sample, int64_t epoch, Sample& out) const {
  require(0 <= sample && sample < num_samples(), "{}: there is no sample {}: there are {}",
          dataset_->prefix(), sample, num_samples());
  Pair pair = choose(sample, epoch);
  shorten(sample, epoch, pair);
  const SpecialTokens& special = masking_.traits().special;
  const size_t a = static_cast<size_t>(pair.a.size()), b = static_cast<size_t>(pair.b.size());
  const size_t size = a + b + size_t{kPairSpecials};
  out.clear();
  out.tokens.resize(size);
  out.targets.resize(size);
  const std::span<int32_t> tokens(out.tokens);
  tokens[0] = *special.start;
  dataset_->read_tokens(pair.a.begin, tokens.subspan(1, a));
  tokens[a + 1] = *special.end;
  dataset_->read_tokens(pair.b.begin, tokens.subspan(a + 2, b));
  tokens[size - 1] = *special.end;
  out.token_types.assign(a + 2, 0);
  out.token_types.resize(size, 1);
  out.document_lengths.push_back(static_cast<int32_t>(size));
  out.labels.push_back(pair.random ? 1 : 0);
  masking_.apply(sample, epoch, 0, static_cast<int64_t>(size), out);
}

std::vector<TextOrigin> BertPairDataset::origins(int64_t sample, int64_t epoch) const {
  const Pair pair = choose(sample, epoch);
  const TextOrigin a = origin_of(*dataset_, pair.a, 0), b = origin_of(*dataset_, pair.b, 0);
  if (a.numbers == b.numbers) return {a};
  return {a, b};
}

void BertPairDataset::will_fill(int64_t sample, int64_t epoch) const {
  Pair pair = choose(sample, epoch);
  shorten(sample, epoch, pair);
  for (const Range& text : {pair.a, pair.b}) dataset_->will_read_tokens(text.begin, text.size());
}

}  // namespace tessera
