#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace tessera {

inline constexpr int64_t kMaxBeams = 1024;

struct BeamOptions {
  int64_t beams = 1;
  /// A text's score is the sum of its tokens' log probabilities, divided by its length to this
  /// power. Above 0 it favors longer texts, as in `transformers`; 0 divides by 1.
  double length_penalty = 1.0;
  /// Penalty of the tokens in a beam (RepetitionPenalty). As in `transformers`, it changes log
  /// probabilities, which are then no longer those of a distribution.
  double repetition_penalty = 1.0;
  /// Tokens from here on are never chosen: a model's vocabulary may exceed its tokenizer's.
  int64_t vocab_size = std::numeric_limits<int64_t>::max();
};

/// Throws, naming the option, if one is out of range.
void check(const BeamOptions& options);

/// The texts among which a beam search searches.
struct BeamTexts {
  std::optional<int32_t> end = {};       ///< the token that ends a text and is not part of it
  int64_t max_tokens = 0;                ///< at least 1
  std::span<const int32_t> prompt = {};  ///< seen by the repetition penalty, not part of a text
  /// Whether a text also ends with its last token; never if this is empty.
  std::function<bool(std::span<const int32_t> text)> ends = {};
};

/// Beam search for one text. It keeps the `beams` likeliest unfinished beginnings of a text and the
/// best finished texts, and ends when no beginning can become better than these, by the rule of
/// `transformers` without early stopping. Equal scores are ordered by beam and token, so all ranks
/// with the same logits choose the same.
class BeamSearch {
 public:
  BeamSearch(const BeamOptions& options, const BeamTexts& texts);

  /// Continues each beam. logits (beams, V): those that follow each beam of the last step; all
  /// alike in the first step. Must not be called once done(). Throws if no logit of a beam is
  /// finite.
  void advance(std::span<const float> logits);

  bool done() const { return done_; }

  /// For each beam, the beam of the previous step that it continues, and its last token.
  std::span<const int32_t> parents() const { return parents_; }
  std::span<const int32_t> last_tokens() const { return last_tokens_; }

  /// The tokens of the best finished text, without the token `end`. For a search that is done().
  std::vector<int32_t> best() const;

 private:
  struct Candidate {
    double score;  // sum of log probabilities
    int32_t beam, token;
  };
  struct Finished {
    double score;
    std::vector<int32_t> tokens;
  };

  std::vector<Candidate> likeliest(std::span<const float> logits) const;
  std::vector<double> log_probabilities(std::span<const float> logits, size_t beam) const;
  bool ends(const Candidate& candidate) const;
  void finish(const Candidate& candidate);
  double normalized(double score, int64_t length) const;

  BeamOptions options_;
  std::optional<int32_t> end_;
  int64_t max_tokens_;
  std::vector<int32_t> prompt_;
  std::function<bool(std::span<const int32_t>)> ends_;
  std::vector<std::vector<int32_t>> texts_;  // of each beam
  std::vector<double> scores_;
  std::vector<int32_t> parents_, last_tokens_;
  std::vector<Finished> finished_;  // the best first, up to `beams`
  bool done_ = false;
};

}  // namespace tessera
