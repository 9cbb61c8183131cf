#pragma once

#include <cstdint>
#include <vector>

#include "launch/config/masking_options.h"
#include "launch/data/sample.h"
#include "launch/tokenizers/special_tokens.h"

namespace tessera {

/// Masks text for masked language modeling. Chooses every ordinary token with probability exactly
/// options.probability p, independently for each token or word. BERT's original code chooses a
/// fixed number per sample instead; rounding this number shifts the rate in short samples. Here the
/// number of chosen tokens (or words) is binomial, and may be 0 in a short sample.
///
/// Spans: text between special tokens is scanned word by word. A span starts at a word with
/// probability q = p / (m (1 − p) + p) and has n words, 1 to max_span, with probability
/// proportional to 0.8^n as in SpanBERT; m is the mean. The scan resumes after the span. In the
/// long run this covers a fraction p of the words (a renewal process). The first word is drawn as
/// if it were in the middle of such a process, so each word is covered with probability exactly p.
/// Spans may be adjacent, and end where the text ends. A span is replaced as a whole (by mask
/// tokens, by random tokens, or not at all); tokens and words are replaced token by token.
///
/// Special tokens are never chosen, never part of a word and never a random replacement. Masking is
/// stateless: it is a function of (seed, epoch, id, place) for each token. Thread-safe.
class MlmMasking {
 public:
  /// Throws if an option is out of range, if the vocabulary lacks a start, end or mask token or has
  /// only special tokens, or if options ask for whole words and the vocabulary does not say which
  /// tokens continue a word.
  MlmMasking(VocabularyTraits traits, const MaskingOptions& options, uint64_t seed);

  const VocabularyTraits& traits() const { return traits_; }

  /// Masks tokens [begin, end) of the sample and sets their targets, which must exist: the original
  /// for chosen tokens, kIgnoreTarget for the others. `id`, less than 2^38, identifies the piece of
  /// text, whose masks do not depend on its place in the sample. Throws if there are more than 2^24
  /// tokens.
  void apply(int64_t id, int64_t epoch, int64_t begin, int64_t end, Sample& sample) const;

  /// Returns whether text never contains this token.
  bool is_special(int32_t token) const;

 private:
  class Walk;

  bool continues_word(int32_t token) const;
  int32_t random_token(uint32_t bits) const;

  VocabularyTraits traits_;
  MaskingOptions options_;
  uint64_t seed_;
  std::vector<int32_t> special_;  ///< ascending
  // Probabilities × 2^32, for comparison with 32 random bits.
  uint64_t start_ = 0;           ///< a span starts at a word
  uint64_t first_start_ = 0;     ///< a span covers the first word
  uint64_t mask_ = 0;            ///< the mask token replaces a chosen token
  uint64_t mask_or_random_ = 0;  ///< the mask token or a random token replaces it
  /// Item n: the probability that a span has at most n + 1 words, and that at most n + 1 words are
  /// left of a span that covers the first word.
  std::vector<uint64_t> lengths_, first_lengths_;
};

}  // namespace tessera
