#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "launch/generation/repetition_penalty.h"

namespace tessera {

/// How the next token is chosen. As in `transformers`, the repetition penalty comes first, then the
/// temperature, top-k and top-p.
struct SamplingOptions {
  double repetition_penalty = 1.0;  ///< of tokens that the text contains (RepetitionPenalty)
  double temperature = 1.0;         ///< divides the logits; 0 chooses the likeliest token
  int64_t top_k = 0;                ///< only the k likeliest tokens; 0 is all
  double top_p = 1.0;               ///< only the likeliest tokens that sum to this probability
  uint64_t seed = 1234;
  /// Tokens from here on are never chosen: a model's vocabulary may exceed its tokenizer's.
  int64_t vocab_size = std::numeric_limits<int64_t>::max();
};

/// Throws, naming the option, if one is out of range.
void check(const SamplingOptions& options);

/// Chooses the tokens of a text from logits. The choice at a position depends only on the logits,
/// the seed, the text's number, the position and, with a repetition penalty, the tokens so far. So
/// all tensor ranks, which have the same logits, choose the same, whatever else they compute.
class Sampler {
 public:
  /// `text` is the number of the text, from 0: texts with different numbers have independent random
  /// numbers.
  explicit Sampler(const SamplingOptions& options, int64_t text = 0);

  /// Tells the repetition penalty about tokens that the text begins with.
  void see(std::span<const int32_t> tokens) { penalty_.see(tokens); }

  /// logits (V); `position` counts the generated tokens. Throws if no logit is finite.
  int32_t choose(std::span<const float> logits, uint64_t position);

 private:
  struct Candidate {
    float logit;
    int32_t token;
  };

  void keep_likeliest(std::span<const float> logits);
  void keep_top_p();
  int32_t drawn(uint64_t position) const;

  SamplingOptions options_;
  uint32_t text_;
  RepetitionPenalty penalty_;
  std::vector<Candidate> candidates_;  // the likeliest first
  std::vector<double> weights_;
};

}  // namespace tessera
