#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launch/data/datasets/choice_dataset.h"

namespace tessera {

/// A fraction of correct answers and its standard error, sqrt(p (1 − p) / (n − 1)) of n questions.
struct ChoiceAccuracy {
  double value = 0.0;
  double error = 0.0;  ///< NaN of one question
};

/// How well a model answers the multiple-choice questions of a file.
struct ChoiceScores {
  std::string name;  ///< ChoiceDataset::name()
  int64_t questions = 0;
  int64_t choices = 0;      ///< of all questions together
  ChoiceAccuracy acc;       ///< the answer is the choice with the largest log-likelihood
  ChoiceAccuracy acc_norm;  ///< that with the largest log-likelihood per character
};

/// The place of the largest number, the first one if several are equal. `values` must not be empty.
int64_t place_of_largest(std::span<const double> values);

/// The log-likelihoods of a question's choices per character of their texts.
std::vector<double> per_character(const ChoiceDataset& dataset, int64_t question,
                                  std::span<const double> log_likelihoods);

/// `log_likelihoods` are those of all choices of the file, in order. acc and acc_norm are those of
/// lm-evaluation-harness.
ChoiceScores score_choices(const ChoiceDataset& dataset, std::span<const double> log_likelihoods);

/// "hellaswag acc 28.6% ± 0.5%, acc_norm 30.1% ± 0.5%".
std::string describe(const ChoiceScores& scores);

}  // namespace tessera
