#pragma once

#include <cstdint>
#include <vector>

#include "launch/config/masking_options.h"
#include "launch/data/sample.h"
#include "launch/tokenizers/special_tokens.h"

namespace tessera {

/// Masks text for masked language modelling. Every ordinary token is chosen with exactly
/// options.probability p: each token or word by a coin of its own. BERT's original draws a fixed
/// number of each sample instead, which has to be rounded and so shifts the rate in short samples;
/// here the number of chosen tokens (or words) is binomial, and may be 0 in a short sample.
///
/// Spans: text between special tokens is walked word by word. A span starts at a word with
/// probability q = p / (m (1 − p) + p), has 1 to max_span words, n of them with a probability that
/// is proportional to 0.8^n as in SpanBERT, m in the mean, and the walk goes on behind it. In the
/// long run that covers a share p of the words (a renewal process), and as the first word is drawn
/// as if it stood in the middle of such a run, each word is covered with exactly p. Spans may
/// touch, and end where the text does. A span is replaced as a whole (by mask tokens, random ones,
/// or not at all), tokens and words are token by token.
///
/// Special tokens are never chosen, part of a word or a random replacement. There is no state: what
/// happens to a token is a function of (seed, epoch, id, place). Any number of threads may use one.
class MlmMasking {
 public:
  /// Throws if an option is out of range, if the vocabulary lacks a start, end or mask token or has
  /// nothing but special tokens, or if whole words are asked for and it does not say what continues
  /// a word.
  MlmMasking(VocabularyTraits traits, const MaskingOptions& options, uint64_t seed);

  const VocabularyTraits& traits() const { return traits_; }

  /// Masks tokens [begin, end) of the sample and sets their targets, which must be there: the
  /// original where a token was chosen, kIgnoreTarget elsewhere. `id`, less than 2^38, says which
  /// piece of text they are: it is masked the same wherever in a sample it lies. Throws if there
  /// are more than 2^24 tokens.
  void apply(int64_t id, int64_t epoch, int64_t begin, int64_t end, Sample& sample) const;

  /// Whether text never has this token.
  bool is_special(int32_t token) const;

 private:
  class Walk;

  bool continues_word(int32_t token) const;
  int32_t random_token(uint32_t bits) const;

  VocabularyTraits traits_;
  MaskingOptions options_;
  uint64_t seed_;
  std::vector<int32_t> special_;  ///< ascending
  // Probabilities × 2^32, to be compared with 32 random bits.
  uint64_t start_ = 0;           ///< of a span, at a word
  uint64_t first_start_ = 0;     ///< of a span that covers the first word
  uint64_t mask_ = 0;            ///< that the mask token replaces what is chosen
  uint64_t mask_or_random_ = 0;  ///< that anything replaces it
  /// Item n: that a span has no more than n + 1 words, and that no more than n + 1 words are left
  /// of one that covers the first word.
  std::vector<uint64_t> lengths_, first_lengths_;
};

}  // namespace tessera
