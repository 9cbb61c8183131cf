#include <algorithm>
#include <vector>

#include "core/error.h"
#include "launch/config/label_names.h"
#include "launch/train/continuation_pass.h"
#include "launch/train/evaluation_pass.h"
#include "launch/train/model_of_run.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/exchange.h"

// Questions of a run to its model between two steps.
namespace tessera {
namespace {

/// The average has the place of the weights while this exists. TrainStep::round_values() publishes
/// either. An error must not leave them exchanged, because a checkpoint may follow it.
class AverageInPlace {
 public:
  explicit AverageInPlace(TrainStep& step) : step_(step) { step_.swap_average(); }
  ~AverageInPlace() { step_.swap_average(); }
  AverageInPlace(const AverageInPlace&) = delete;
  AverageInPlace& operator=(const AverageInPlace&) = delete;

 private:
  TrainStep& step_;
};

}  // namespace

Evaluation Trainer::evaluate() {
  require(eval_ != nullptr, "there is no eval data: set data.eval or data.eval_fraction");
  require_finite_steps();
  train_step_->round_values(steps_done_);
  const EvaluationPass pass = {
      config_.model,  *model_,       arena_, groups_,
      eval_batches_,  device_batch_, rows_,  names_of_labels(config_.data.labels),
      eval_datasets_, token_bytes_};
  const int64_t batches = std::min(config_.eval.batches, batches_.num_eval_batches());
  Evaluation found = tessera::evaluate(pass, batches);
  for (size_t i = 0; i < choices_.size(); ++i) {
    const ContinuationScores scores = score_continuations(pass, choice_batches_[i], *choices_[i]);
    found.choices.push_back(score_choices(*choices_[i], scores.log_likelihoods));
  }
  if (state_->has_average()) {
    const AverageInPlace average(*train_step_);
    train_step_->round_values(steps_done_);
    found.ema_losses = tessera::evaluate(pass, batches).losses;
  }
  train_step_->round_values(steps_done_);
  run_.evaluations.add(steps_done_, found.best_loss());
  run_.evaluated_step = steps_done_;
  return found;
}

std::vector<ParameterHistograms> Trainer::histograms() {
  require_finite_steps();
  return parameter_histograms(*state_, groups_);
}

void Trainer::ask(const AskModel& question) {
  require(eval_ != nullptr && tokenizer_ != nullptr,
          "a question about held-out text needs evaluation data and a tokenizer");
  require_finite_steps();
  train_step_->round_values(steps_done_);
  Sample sample;
  all_or_none(groups_.world, [&] { eval_->fill(/*sample=*/0, /*epoch=*/0, sample); });
  ModelOfRun model(config_, *model_, *groups_.tp, arena_);
  question(model, *tokenizer_, sample);
}

std::vector<ModelSample> Trainer::write_samples() {
  require(sample_writer_.has_value(), "there is no prompt: set eval.prompts");
  require_finite_steps();
  train_step_->round_values(steps_done_);
  ModelOfRun model(config_, *model_, *groups_.tp, arena_);
  run_.sampled_step = steps_done_;
  return sample_writer_->write(model, groups_, steps_done_);
}

}  // namespace tessera
