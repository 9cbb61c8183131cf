#include "launch/tools/evaluate/likelihood_run.h"

#include <memory>
#include <string>

#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/data/datasets/likelihood_dataset.h"
#include "launch/support/text/json.h"
#include "launch/tools/evaluate/continuation_run.h"

namespace tessera {
namespace {

/// A line for each line of the file.
std::string score_lines(const LikelihoodDataset& dataset, const ContinuationScores& scores) {
  std::string lines;
  for (int64_t line = 0; line < dataset.num_lines(); ++line) {
    double log_likelihood = 0.0;
    bool greedy = true;
    int64_t tokens = 0;
    const Range own = dataset.continuations(line);
    for (int64_t i = own.begin; i < own.end; ++i) {
      log_likelihood += scores.log_likelihoods[static_cast<size_t>(i)];
      greedy = greedy && scores.greedy[static_cast<size_t>(i)];
      tokens += dataset.num_tokens(i);
    }
    const Json found = {{"log_likelihood", log_likelihood}, {"greedy", greedy}, {"tokens", tokens}};
    lines += to_text(found) + "\n";
  }
  return lines;
}

}  // namespace

EvalReport score_texts(const EvalOptions& options, const ParallelGroups& groups,
                       const std::filesystem::path& checkpoint, TextModel& model) {
  std::shared_ptr<const LikelihoodDataset> file;
  const auto open = [&](const Checkpoint& from, const Tokenizer& tokenizer,
                        const ModelConfig& config) {
    const auto chat = [&] {
      const ChatFormat choice = options.chat.value_or(ChatFormat::automatic);
      return ChatTemplate(chosen_chat_form(choice, checkpoint_chat(from), tokenizer), tokenizer);
    };
    file = std::make_shared<const LikelihoodDataset>(*options.log_likelihoods, tokenizer, config,
                                                     chat);
    return ContinuationRun::Files{file};
  };
  ContinuationRun run(options, groups, checkpoint, model, open);
  EvalReport report = run.run([&](size_t /*file*/, const ContinuationScores& scores) {
    return score_lines(*file, scores);
  });
  ScoredTexts scored{file->num_lines(), 0};
  for (int64_t i = 0; i < file->num_continuations(); ++i) scored.tokens += file->num_tokens(i);
  report.scored = scored;
  if (file->num_truncated() > 0) report.notes.push_back(summary_of(*file));
  return report;
}

}  // namespace tessera
