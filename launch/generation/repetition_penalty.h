#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// Throws, naming the option, unless the penalty is positive and finite.
void check_repetition_penalty(double penalty);

/// The repetition penalty of Keskar et al. (2019, "CTRL"), as in `transformers`: the score of a
/// token that the text already contains is divided by the penalty if it is positive, and multiplied
/// by it otherwise.
class RepetitionPenalty {
 public:
  /// 1 changes nothing. Throws as check_repetition_penalty() does.
  explicit RepetitionPenalty(double penalty);

  /// Adds tokens, 0 or more, to those that the text contains.
  void see(std::span<const int32_t> tokens);

  double penalized(double score, int32_t token) const {
    const auto place = static_cast<size_t>(token);
    if (place >= seen_.size() || !seen_[place]) return score;
    return score > 0.0 ? score / penalty_ : score * penalty_;
  }

 private:
  double penalty_;
  std::vector<bool> seen_;  // by token; empty without a penalty
};

}  // namespace tessera
