#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tessera {

/// How the next token is chosen.
struct SamplingOptions {
  double temperature = 1.0;  ///< divides the logits; 0 chooses the likeliest token
  int64_t top_k = 0;         ///< only the k likeliest tokens; 0 is all
  double top_p = 1.0;        ///< only the likeliest tokens that sum to this probability
  uint64_t seed = 1234;
  /// Tokens from here on are never chosen: a model's vocabulary may exceed its tokenizer's.
  int64_t vocab_size = std::numeric_limits<int64_t>::max();
};

/// Throws, naming the option, if one is out of range.
void check(const SamplingOptions& options);

/// Chooses tokens from logits. The choice at a position depends only on the logits, the seed and
/// the position, so all tensor ranks, which have the same logits, choose the same.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  /// logits (V); `position` counts the generated tokens. Throws if no logit is finite.
  int32_t choose(std::span<const float> logits, uint64_t position);

 private:
  struct Candidate {
    float logit;
    int32_t token;
  };

  void keep_likeliest(std::span<const float> logits);
  void keep_top_p();

  SamplingOptions options_;
  std::vector<Candidate> candidates_;  // the likeliest first
  std::vector<double> weights_;
};

}  // namespace tessera
