#include "launch/data/datasets/mlm_masking.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "core/random.h"
#include "launch/data/datasets/special_token_checks.h"

namespace tessera {
namespace {

constexpr double kSpanContinues = 0.8;  ///< SpanBERT's lengths are geometric with parameter 0.2
constexpr int kPlaceBits = 24, kIdBits = 38;  // and 4 words per place: 64 bits
constexpr int64_t kMostWords = 1000;

/// A 32-bit random number is below this with probability `p`.
uint64_t threshold(double p) { return static_cast<uint64_t>(std::llround(p * 0x1p32)); }

void check_options(const MaskingOptions& options) {
  require(0.0 < options.probability && options.probability <= 1.0,
          "masking: the probability is {}, but must be more than 0 and at most 1",
          options.probability);
  const double mask = options.mask_fraction, random = options.random_fraction;
  require(mask >= 0.0 && random >= 0.0 && mask + random <= 1.0 + 1e-9,
          "masking: {} of the chosen tokens become the mask token and {} a random one, but both "
          "must be at least 0, and together at most 1",
          mask, random);
  require(1 <= options.max_span && options.max_span <= kMostWords,
          "masking: the longest span is {} words, but must be 1 to {}", options.max_span,
          kMostWords);
}

/// Returns the cumulative sums of weights, normalized to 1, as thresholds.
std::vector<uint64_t> cumulative(const std::vector<double>& weights) {
  double sum = 0.0, total = 0.0;
  for (const double weight : weights) total += weight;
  std::vector<uint64_t> result;
  for (const double weight : weights) result.push_back(threshold((sum += weight) / total));
  result.back() = uint64_t{1} << 32;
  return result;
}

int64_t draw_length(const std::vector<uint64_t>& lengths, uint32_t bits) {
  return std::upper_bound(lengths.begin(), lengths.end(), bits) - lengths.begin() + 1;
}

}  // namespace

MlmMasking::MlmMasking(VocabularyTraits traits, const MaskingOptions& options, uint64_t seed)
    : traits_(std::move(traits)), options_(options), seed_(seed), special_(special_ids(traits_)) {
  check_options(options);
  require_special_tokens(traits_, {"start", "end", "mask"}, "masked language modelling");
  require(static_cast<int64_t>(special_.size()) < traits_.vocab_size,
          "masking: the vocabulary of {} tokens has only special tokens", traits_.vocab_size);
  const auto& continues = traits_.continues_word;
  require(continues.empty() || static_cast<int64_t>(continues.size()) == traits_.vocab_size,
          "masking: the tokenizer marks the word continuations among {} tokens, but the vocabulary "
          "has {}",
          continues.size(), traits_.vocab_size);
  require(
      options.unit != MaskUnit::whole_word || std::ranges::find(continues, true) != continues.end(),
      "whole-word masking needs a tokenizer that marks tokens that continue a word, as wordpiece "
      "does: choose that, or mask tokens or spans");

  const int64_t most = options.unit == MaskUnit::span ? options.max_span : 1;
  std::vector<double> weights, tails;  // of a length, and of that length or more
  for (int64_t n = 0; n < most; ++n) {
    weights.push_back(std::pow(kSpanContinues, static_cast<double>(n)));
  }
  double total = 0.0, mean = 0.0;
  for (size_t n = weights.size(); n-- > 0;) tails.push_back(total += weights[n]);
  std::ranges::reverse(tails);
  for (const double tail : tails) mean += tail / total;
  // At a word inside a span, n words of the span are left with probability P(length >= n) / mean.
  lengths_ = cumulative(weights);
  first_lengths_ = cumulative(tails);
  const double p = options.probability;
  first_start_ = threshold(p);
  start_ = threshold(p / (mean * (1.0 - p) + p));
  mask_ = threshold(options.hide == MaskHide::attention ? 1.0 : options.mask_fraction);
  mask_or_random_ = threshold(std::min(options.mask_fraction + options.random_fraction, 1.0));
}

bool MlmMasking::is_special(int32_t token) const {
  return std::ranges::binary_search(special_, token);
}

bool MlmMasking::continues_word(int32_t token) const {
  if (options_.unit == MaskUnit::token || traits_.continues_word.empty()) return false;
  return traits_.continues_word[static_cast<size_t>(token)];
}

int32_t MlmMasking::random_token(uint32_t bits) const {
  const uint64_t ordinary = static_cast<uint64_t>(traits_.vocab_size) - special_.size();
  auto token = static_cast<int32_t>(uint64_t{bits} * ordinary >> 32);
  for (const int32_t special : special_) token += token >= special ? 1 : 0;
  return token;
}

/// One pass over a piece of text.
class MlmMasking::Walk {
 public:
  Walk(const MlmMasking& masking, int64_t id, int64_t epoch, std::span<int32_t> tokens,
       std::span<int32_t> targets)
      : masking_(masking),
        key_{masking.seed_, RandomPurpose::masking, 0, narrow<uint32_t>(epoch)},
        first_block_(static_cast<uint64_t>(id) << kPlaceBits),
        tokens_(tokens),
        targets_(targets) {}

  /// Masks tokens [begin, end), none of which is special.
  void mask(size_t begin, size_t end) {
    bool first = true;
    for (size_t word = begin; word < end; first = false) {
      const auto bits = bits_at(word);
      const bool covered = bits[0] < (first ? masking_.first_start_ : masking_.start_);
      const int64_t words =
          covered ? draw_length(first ? masking_.first_lengths_ : masking_.lengths_, bits[1]) : 1;
      const size_t next = skip_words(word, end, words);
      if (covered) replace(word, next, bits[2]);
      word = next;
    }
  }

 private:
  using Words = std::array<uint32_t, 4>;

  /// Returns four words for each place: whether a span starts, its length, the kind of replacement,
  /// and the random token. Computes many places at a time, which is faster.
  Words bits_at(size_t place) {
    if (place < first_known_ || place >= first_known_ + kKnown) {
      first_known_ = place;
      random_bits(key_, (first_block_ + place) * 4, known_.size(), known_.data());
    }
    const uint32_t* words = known_.data() + 4 * (place - first_known_);
    return {words[0], words[1], words[2], words[3]};
  }

  size_t skip_words(size_t place, size_t end, int64_t words) const {
    for (; words > 0 && place < end; --words) {
      do {
        ++place;
      } while (place < end && masking_.continues_word(tokens_[place]));
    }
    return place;
  }

  void replace(size_t begin, size_t end, uint32_t span_bits) {
    for (size_t i = begin; i < end; ++i) {
      const auto bits = bits_at(i);
      const uint32_t fate = masking_.options_.unit == MaskUnit::span ? span_bits : bits[2];
      targets_[i] = tokens_[i];
      if (fate < masking_.mask_) {
        tokens_[i] = *masking_.traits_.special.mask;
      } else if (fate < masking_.mask_or_random_) {
        tokens_[i] = masking_.random_token(bits[3]);
      }
    }
  }

  const MlmMasking& masking_;
  RandomKey key_;
  uint64_t first_block_;
  std::span<int32_t> tokens_, targets_;

  static constexpr size_t kKnown = 32;
  std::array<uint32_t, 4 * kKnown> known_;  ///< of places from first_known_ on
  size_t first_known_ = std::numeric_limits<size_t>::max() - kKnown;
};

void MlmMasking::apply(int64_t id, int64_t epoch, int64_t begin, int64_t end,
                       Sample& sample) const {
  const auto n = static_cast<int64_t>(sample.tokens.size());
  require(0 <= begin && begin <= end && end <= n && sample.targets.size() == sample.tokens.size(),
          "masking: tokens [{}, {}) are not within a sample of {} tokens and {} targets", begin,
          end, n, sample.targets.size());
  require(end - begin <= int64_t{1} << kPlaceBits && 0 <= id && id < int64_t{1} << kIdBits,
          "masking: {} tokens of piece {} are more than 2^{}, or the piece's number is more than "
          "2^{}",
          end - begin, id, kPlaceBits, kIdBits);
  const auto size = static_cast<size_t>(end - begin);
  const auto tokens = std::span(sample.tokens).subspan(static_cast<size_t>(begin), size);
  const auto targets = std::span(sample.targets).subspan(static_cast<size_t>(begin), size);
  for (const int32_t token : tokens) {
    if (token >= 0 && token < traits_.vocab_size) continue;
    fail("masking: token {} of piece {} is not in the vocabulary, which has {}", token, id,
         traits_.vocab_size);
  }
  std::ranges::fill(targets, kIgnoreTarget);
  Walk walk(*this, id, epoch, tokens, targets);
  const auto special = [&](int32_t token) { return is_special(token); };
  for (auto from = tokens.begin(); from != tokens.end();) {
    from = std::find_if_not(from, tokens.end(), special);
    const auto to = std::find_if(from, tokens.end(), special);
    walk.mask(static_cast<size_t>(from - tokens.begin()), static_cast<size_t>(to - tokens.begin()));
    from = to;
  }
}

}  // namespace tessera
