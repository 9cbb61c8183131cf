#include "launch/tools/evaluate/choice_run.h"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launch/data/datasets/choice_dataset.h"
#include "launch/metrics/choice_scores.h"
#include "launch/support/text/json.h"
#include "launch/tools/evaluate/continuation_run.h"

namespace tessera {
namespace {

/// The answers to the questions of a file as lines.
std::string lines_of(const ChoiceDataset& dataset, std::span<const double> log_likelihoods) {
  std::string lines;
  for (int64_t question = 0; question < dataset.num_questions(); ++question) {
    const Range choices = dataset.choices(question);
    const auto own = log_likelihoods.subspan(static_cast<size_t>(choices.begin),
                                             static_cast<size_t>(choices.size()));
    const int64_t answer = dataset.answer(question);
    const Json line = {
        {"name", dataset.name()},
        {"line", dataset.line(question)},
        {"answer", answer},
        {"acc", place_of_largest(own) == answer ? 1 : 0},
        {"acc_norm", place_of_largest(per_character(dataset, question, own)) == answer ? 1 : 0},
        {"log_likelihoods", std::vector<double>(own.begin(), own.end())}};
    lines += to_text(line) + "\n";
  }
  return lines;
}

}  // namespace

EvalReport answer_questions(const EvalOptions& options, const ParallelGroups& groups,
                            const std::filesystem::path& checkpoint, TextModel& model) {
  std::vector<std::shared_ptr<const ChoiceDataset>> files;
  const auto open = [&](const Checkpoint&, const Tokenizer& tokenizer, const ModelConfig& config) {
    files = open_choices(options.multiple_choice, tokenizer, config);
    return ContinuationRun::Files(files.begin(), files.end());
  };
  ContinuationRun run(options, groups, checkpoint, model, open);
  std::vector<ChoiceScores> found;
  EvalReport report = run.run([&](size_t i, const ContinuationScores& scores) {
    found.push_back(score_choices(*files[i], scores.log_likelihoods));
    return lines_of(*files[i], scores.log_likelihoods);
  });
  report.found.choices = std::move(found);
  for (const auto& file : files) {
    if (file->num_truncated() > 0) report.notes.push_back(summary_of(*file));
  }
  return report;
}

}  // namespace tessera
