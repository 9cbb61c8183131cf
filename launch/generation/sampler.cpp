#include "launch/generation/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "core/random.h"

namespace tessera {

void check(const SamplingOptions& options) {
  check_repetition_penalty(options.repetition_penalty);
  require(std::isfinite(options.temperature) && options.temperature >= 0.0,
          "--temperature is {}: it is 0 (the likeliest token) or a positive number",
          options.temperature);
  require(options.top_k >= 0, "--top-k is {}: it is 0 (all tokens) or a positive number",
          options.top_k);
  require(options.top_p > 0.0 && options.top_p <= 1.0,
          "--top-p is {}: it is a probability in (0, 1]", options.top_p);
}

Sampler::Sampler(const SamplingOptions& options, int64_t text)
    : options_(options), text_(narrow<uint32_t>(text)), penalty_(options.repetition_penalty) {
  check(options);
}

void Sampler::keep_likeliest(std::span<const float> logits) {
  candidates_.clear();
  const size_t tokens = std::min(logits.size(), static_cast<size_t>(options_.vocab_size));
  for (size_t token = 0; token < tokens; ++token) {
    const auto id = static_cast<int32_t>(token);
    const auto logit =
        static_cast<float>(penalty_.penalized(static_cast<double>(logits[token]), id));
    if (std::isfinite(logit)) candidates_.push_back({logit, id});
  }
  require(!candidates_.empty(), "the model's logits are not finite: its weights are damaged");
  // Orders equal logits by token, so that the order is the same everywhere.
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  const bool greedy = options_.temperature == 0.0;
  const size_t limit = greedy ? 1 : static_cast<size_t>(options_.top_k);
  const size_t count = limit == 0 ? candidates_.size() : std::min(candidates_.size(), limit);
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(count),
                    candidates_.end(), likelier);
  candidates_.resize(count);
}

void Sampler::keep_top_p() {
  weights_.clear();
  double sum = 0.0;
  for (const Candidate& candidate : candidates_) {
    const double relative = static_cast<double>(candidate.logit - candidates_.front().logit);
    weights_.push_back(std::exp(relative / options_.temperature));
    sum += weights_.back();
  }
  double kept = 0.0;
  size_t count = 0;
  while (count < weights_.size() && kept < options_.top_p * sum) kept += weights_[count++];
  weights_.resize(count);
}

int32_t Sampler::choose(std::span<const float> logits, uint64_t position) {
  keep_likeliest(logits);
  if (options_.temperature != 0.0) keep_top_p();
  const int32_t token = options_.temperature == 0.0 ? candidates_.front().token : drawn(position);
  penalty_.see({&token, 1});
  return token;
}

int32_t Sampler::drawn(uint64_t position) const {
  double sum = 0.0;
  for (const double weight : weights_) sum += weight;
  const RandomKey key{options_.seed, RandomPurpose::sampling, 0, text_};
  double left = static_cast<double>(random_uniform(key, position)) * sum;
  for (size_t i = 0; i < weights_.size(); ++i) {
    left -= weights_[i];
    if (left < 0.0) return candidates_[i].token;
  }
  return candidates_[weights_.size() - 1].token;
}

}  // namespace tessera
