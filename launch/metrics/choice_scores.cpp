#include "launch/metrics/choice_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "launch/support/text/human_text.h"

namespace tessera {
namespace {

ChoiceAccuracy accuracy(int64_t correct, int64_t count) {
  const double n = static_cast<double>(count), p = static_cast<double>(correct) / n;
  return {p, count > 1 ? std::sqrt(p * (1.0 - p) / (n - 1.0)) : std::nan("")};
}

std::string text_of(const ChoiceAccuracy& accuracy) {
  return percent(accuracy.value) +
         (std::isnan(accuracy.error) ? "" : " ± " + percent(accuracy.error));
}

}  // namespace

int64_t place_of_largest(std::span<const double> values) {
  return std::ranges::max_element(values) - values.begin();
}

std::vector<double> per_character(const ChoiceDataset& dataset, int64_t question,
                                  std::span<const double> log_likelihoods) {
  std::vector<double> normalized(log_likelihoods.begin(), log_likelihoods.end());
  int64_t choice = dataset.choices(question).begin;
  for (double& value : normalized) value /= static_cast<double>(dataset.characters(choice++));
  return normalized;
}

ChoiceScores score_choices(const ChoiceDataset& dataset, std::span<const double> log_likelihoods) {
  require(std::ssize(log_likelihoods) == dataset.num_choices(),
          "{}: there are {} log-likelihoods of {} choices", dataset.path(), log_likelihoods.size(),
          dataset.num_choices());
  int64_t correct = 0, correct_norm = 0;
  for (int64_t question = 0; question < dataset.num_questions(); ++question) {
    const Range choices = dataset.choices(question);
    const auto own = log_likelihoods.subspan(static_cast<size_t>(choices.begin),
                                             static_cast<size_t>(choices.size()));
    const int64_t answer = dataset.answer(question);
    correct += place_of_largest(own) == answer ? 1 : 0;
    correct_norm += place_of_largest(per_character(dataset, question, own)) == answer ? 1 : 0;
  }
  ChoiceScores scores{dataset.name(), dataset.num_questions(), dataset.num_choices(), {}, {}};
  scores.acc = accuracy(correct, scores.questions);
  scores.acc_norm = accuracy(correct_norm, scores.questions);
  return scores;
}

std::string describe(const ChoiceScores& scores) {
  return fmt::format("{} acc {}, acc_norm {}", scores.name, text_of(scores.acc),
                     text_of(scores.acc_norm));
}

}  // namespace tessera
