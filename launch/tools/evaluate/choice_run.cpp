#include "launch/tools/evaluate/choice_run.h"

#include <fmt/format.h>

#include <memory>
#include <span>
#include <vector>

#include "core/error.h"
#include "launch/checkpoint/attention_mask_file.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/data/datasets/choice_dataset.h"
#include "launch/support/files/folders.h"
#include "launch/support/files/staged_file.h"
#include "launch/support/same_on_ranks.h"
#include "launch/tools/evaluate/eval_model.h"
#include "launch/tools/evaluate/eval_progress.h"
#include "launch/train/choice_pass.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

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

/// One rank's part.
class ChoiceRun {
 public:
  ChoiceRun(const EvalOptions& options, const ParallelGroups& groups,
            const std::filesystem::path& path, Device device)
      : options_(options), groups_(groups) {
    report_.checkpoint = path;
    all_or_none(groups.world, [&] { open(device); });
    std::vector<NamedValue> identity;
    for (const auto& file : files_) {
      identity.push_back({fmt::format("the questions of {}", file->path()), file->identity()});
    }
    require_same_on_ranks(groups.world, identity, "Give all hosts the same files");
  }

  EvalReport run() {
    int64_t rounds = 0;
    for (const TokenBatches& batches : batches_) rounds += batches.num_eval_batches();
    EvalProgress progress(groups_.world.rank() == 0, rounds);
    const EvaluationPass pass = {config_, model_->model(), model_->arena(),
                                 groups_, *prefetched_,    model_->device_batch()};
    for (size_t i = 0; i < files_.size(); ++i) {
      const std::vector<double> found =
          choice_log_likelihoods(pass, batches_[i], *files_[i], [&] { progress.add_batch(); });
      report_.found.choices.push_back(score_choices(*files_[i], found));
      all_or_none(groups_.world, [&] {
        if (log_) log_->write(lines_of(*files_[i], found));
      });
    }
    progress.clear();
    all_or_none(groups_.world, [&] {
      if (!log_) return;
      log_->close();
      log_->publish();
    });
    report_.seconds = progress.seconds();
    return report_;
  }

 private:
  void open(Device device) {
    Checkpoint checkpoint = Checkpoint::open(report_.checkpoint);
    if (options_.ema) checkpoint.use_average();
    report_.ema = options_.ema;
    report_.step = checkpoint.manifest().step;
    config_ = model_of(checkpoint);
    files_ = open_choices(options_.multiple_choice, *tokenizer_of(checkpoint), config_);
    const BatchShape shape = batch_shape(options_.micro_batch, traits_of(config_));
    for (const auto& file : files_) {
      if (file->num_truncated() > 0) report_.notes.push_back(summary_of(*file));
      batches_.push_back(choice_batches(file, config_, shape.sequences, *groups_.dp));
    }
    model_ = std::make_unique<EvalModel>(checkpoint, config_, shape, *groups_.tp, device);
    prefetched_ = std::make_unique<PrefetchedEvaluation>(batches_.front(), shape, device);
    if (!options_.log_samples || groups_.world.rank() != 0) return;
    create_folder_of(*options_.log_samples);
    log_ = std::make_unique<StagedFile>(*options_.log_samples);
  }

  const EvalOptions& options_;
  const ParallelGroups& groups_;
  EvalReport report_;
  ModelConfig config_;
  std::vector<std::shared_ptr<const ChoiceDataset>> files_;
  std::vector<TokenBatches> batches_;  // of each file
  std::unique_ptr<EvalModel> model_;
  std::unique_ptr<PrefetchedEvaluation> prefetched_;
  std::unique_ptr<StagedFile> log_;  // on rank 0
};

}  // namespace

void check_question_options(const EvalOptions& options) {
  require(!options.log_samples || !options.multiple_choice.empty(),
          "--log-samples writes the answers to questions, but no file has any: add "
          "--multiple-choice");
  if (options.multiple_choice.empty()) return;
  const bool of_data = options.data || options.part != DataPart::eval || options.config ||
                       !options.overrides.empty() || options.max_samples || options.dump;
  require(!of_data,
          "--multiple-choice answers questions instead of evaluating data, so --data, --part, "
          "--config, --set, --max-samples and --dump have no effect: leave them out");
}

EvalReport answer_questions(const EvalOptions& options, const ParallelGroups& groups,
                            const std::filesystem::path& checkpoint, Device device) {
  return ChoiceRun(options, groups, checkpoint, device).run();
}

}  // namespace tessera
