#include "launch/generation/beam_search.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "launch/generation/repetition_penalty.h"

namespace tessera {

void check(const BeamOptions& options) {
  require(options.beams >= 1 && options.beams <= kMaxBeams, "--beams is {}: it is 1 to {}",
          options.beams, kMaxBeams);
  require(std::isfinite(options.length_penalty), "--length-penalty is {}: it must be finite",
          options.length_penalty);
  check_repetition_penalty(options.repetition_penalty);
}

BeamSearch::BeamSearch(const BeamOptions& options, const BeamTexts& texts)
    : options_(options),
      end_(texts.end),
      max_tokens_(texts.max_tokens),
      prompt_(texts.prompt.begin(), texts.prompt.end()),
      ends_(texts.ends) {
  check(options);
  require(max_tokens_ >= 1, "a text of {} tokens: choose 1 or more", max_tokens_);
  // The beams begin alike, so only the first counts.
  const auto beams = static_cast<size_t>(options.beams);
  texts_.resize(beams);
  scores_.assign(beams, -std::numeric_limits<double>::infinity());
  scores_[0] = 0.0;
}

double BeamSearch::normalized(double score, int64_t length) const {
  return score / std::pow(static_cast<double>(length), options_.length_penalty);
}

/// Those of the tokens that follow a beam, with the repetition penalty.
std::vector<double> BeamSearch::log_probabilities(std::span<const float> logits,
                                                  size_t beam) const {
  const float highest = *std::ranges::max_element(logits);
  require(std::isfinite(highest), "the model's logits are not finite: its weights are damaged");
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - highest));
  const double log_sum = static_cast<double>(highest) + std::log(sum);
  RepetitionPenalty penalty(options_.repetition_penalty);
  penalty.see(prompt_);
  penalty.see(texts_[beam]);
  std::vector<double> scores;
  for (const float logit : logits) {
    const auto token = static_cast<int32_t>(scores.size());
    scores.push_back(penalty.penalized(static_cast<double>(logit) - log_sum, token));
  }
  return scores;
}

/// The 2 × beams likeliest continuations: even if `beams` of them end, as many do not.
std::vector<BeamSearch::Candidate> BeamSearch::likeliest(std::span<const float> logits) const {
  const size_t vocab = logits.size() / texts_.size();
  const size_t allowed = std::min(vocab, static_cast<size_t>(options_.vocab_size));
  const auto better = [](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
  };
  std::vector<Candidate> all;
  for (size_t beam = 0; beam < texts_.size(); ++beam) {
    if (std::isinf(scores_[beam])) continue;
    const std::vector<double> row =
        log_probabilities(logits.subspan(beam * vocab, vocab).first(allowed), beam);
    const size_t first = all.size();
    for (size_t token = 0; token < row.size(); ++token) {
      const double score = scores_[beam] + row[token];
      if (std::isfinite(score)) {
        all.push_back({score, static_cast<int32_t>(beam), static_cast<int32_t>(token)});
      }
    }
    // No more than these of one beam can be among the likeliest.
    const size_t kept = std::min(all.size(), first + 2 * texts_.size());
    std::partial_sort(all.begin() + static_cast<std::ptrdiff_t>(first),
                      all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(), better);
    all.resize(kept);
  }
  std::ranges::sort(all, better);
  all.resize(std::min(all.size(), 2 * texts_.size()));
  return all;
}

bool BeamSearch::ends(const Candidate& candidate) const {
  if (candidate.token == end_) return true;
  if (!ends_) return false;
  std::vector<int32_t> text = texts_[static_cast<size_t>(candidate.beam)];
  text.push_back(candidate.token);
  return ends_(text);
}

void BeamSearch::finish(const Candidate& candidate) {
  std::vector<int32_t> tokens = texts_[static_cast<size_t>(candidate.beam)];
  const double score = normalized(candidate.score, std::ssize(tokens) + 1);  // `end` counts
  if (candidate.token != end_) tokens.push_back(candidate.token);
  const auto place = std::ranges::upper_bound(finished_, score, std::greater(), &Finished::score);
  finished_.insert(place, {score, std::move(tokens)});
  if (finished_.size() > texts_.size()) finished_.pop_back();
}

void BeamSearch::advance(std::span<const float> logits) {
  require(!done_, "the search is done");
  const int64_t length = std::ssize(texts_[0]) + 1;
  const std::vector<Candidate> candidates = likeliest(logits);
  const bool is_last = length == max_tokens_;
  std::vector<Candidate> next;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const bool is_end = ends(candidate);
    // A text ends only with one of the likeliest continuations, as in `transformers`.
    if ((is_end || is_last) && i < texts_.size()) finish(candidate);
    if (!is_end && next.size() < texts_.size()) next.push_back(candidate);
  }
  std::vector<std::vector<int32_t>> texts(texts_.size());
  parents_.assign(texts_.size(), 0);
  last_tokens_.assign(texts_.size(), candidates[0].token);
  std::ranges::fill(scores_, -std::numeric_limits<double>::infinity());
  for (size_t beam = 0; beam < texts.size(); ++beam) {
    const bool exists = beam < next.size();
    if (exists) {
      parents_[beam] = next[beam].beam;
      last_tokens_[beam] = next[beam].token;
      scores_[beam] = next[beam].score;
    }
    texts[beam] = texts_[static_cast<size_t>(parents_[beam])];
    texts[beam].push_back(last_tokens_[beam]);
  }
  texts_ = std::move(texts);
  const bool full = finished_.size() == texts_.size();
  const bool improves =
      !next.empty() && (!full || finished_.back().score < normalized(next[0].score, length));
  done_ = is_last || !improves;
}

std::vector<int32_t> BeamSearch::best() const {
  require(done_ && !finished_.empty(), "the search has not found a text");
  return finished_[0].tokens;
}

}  // namespace tessera
