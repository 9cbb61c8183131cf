#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/run_state.h"
#include "launch/checkpoint/save/background_save.h"
#include "launch/checkpoint/save/save.h"
#include "launch/config/run_config.h"
#include "launch/data/loading/device_batch.h"
#include "launch/data/loading/prefetched_evaluation.h"
#include "launch/data/loading/token_batches.h"
#include "launch/data/training_data.h"
#include "launch/devices/gpu_versions.h"
#include "launch/generation/queried_model.h"
#include "launch/metrics/evaluation.h"
#include "launch/metrics/model_sample.h"
#include "launch/metrics/noise_scale.h"
#include "launch/metrics/step_result.h"
#include "launch/metrics/token_bytes.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/train/diagnosis/bad_reason.h"
#include "launch/train/diagnosis/loaded_step.h"
#include "launch/train/diagnosis/parameter_histograms.h"
#include "launch/train/memory/memory_plan.h"
#include "launch/train/micro_steps.h"
#include "launch/train/replica_check.h"
#include "launch/train/sample_writer.h"
#include "launch/train/step_batches.h"
#include "launch/train/train_step.h"
#include "models/model.h"
#include "parallel/process_grid.h"

namespace tessera {

/// One rank's part in training a model: the state that a step touches and a checkpoint stores. All
/// public functions except getters are collective over the world.
class Trainer {
 public:
  /// Allocates everything on `device`, from the dry run's plan. `groups` must outlive the trainer
  /// and support tensors of the device. The weights are zero until initialize(), restore() or
  /// start_from(). Throws, with the plan, if it needs more than `free_bytes` of a GPU.
  Trainer(const RunConfig& config, const ParallelGroups& groups, const TrainingData& data,
          Device device = kCpu, size_t free_bytes = SIZE_MAX);

  /// Sets initial weights and step 0.
  void initialize();

  /// Resumes from the checkpoint.
  void restore(Checkpoint& checkpoint);

  /// Like restore(), from a checkpoint of this run before failed_step(), but continues with the
  /// samples after that step, and counts a rollback.
  void roll_back(Checkpoint& checkpoint);

  /// Uses the checkpoint's weights as initial ones, at step 0. Heads that the checkpoint lacks, or
  /// has for other labels, are initialized; heads that only the checkpoint has are dropped. Returns
  /// a sentence that names them, or "".
  std::string start_from(Checkpoint& checkpoint);

  /// On GPUs, if RunSection::times_products(): chooses the algorithms of matrix products by their
  /// speed, as far as the run's folder does not have them (agree_on_algorithms), and returns a
  /// sentence for the start-up summary. With `stores`, adds those it times to the folder, which
  /// must exist. Call it before the first step.
  std::optional<std::string> tune_products(bool stores = false);

  /// Enqueues one optimizer step without waiting for it, and loads the next step's data meanwhile.
  /// Throws on all ranks if a sample is damaged. If the loss or a gradient is not finite, or its
  /// norm is a spike, this step changes no weight. If train.max_skipped_steps allows no more of
  /// these, later ones do not either, and the next result(), evaluate() or save() throws.
  /// Steps that log.noise_scale_interval divides wait for the device.
  void step();

  /// A ReplicaCheck, which saves have, too. Needs train.check_replicas_interval.
  void check_replicas() { replica_check_.value().run(steps_done_); }

  /// Returns the work since the last result, which must be at least one step. Waits for the device.
  /// If a step was skipped, says where it was not finite, for which it is computed again unless
  /// later steps have changed the weights. Throws, saying the same, if no more may be skipped.
  StepResult result();

  /// Like result(), but on one rank alone and not collective. Leaves an error, and what is known of
  /// a skipped step, to the next collective call.
  StepResult local_result();

  /// Why the last step changed no weight; nullopt if it did. Waits for the device.
  std::optional<BadReason> bad_reason() {
    return reason_of_last_step(train_step_->record(), config_.train);
  }

  /// The step after which result() and others throw, once they have; null otherwise.
  const BadStep* failed_step() const { return failed_step_ ? &*failed_step_ : nullptr; }

  /// Whether result() waits for the device, so that calling it after every step would cost time.
  bool results_wait() const { return !store_.device().is_cpu(); }

  /// Evaluates min(eval.batches, all) batches of the eval data, and all multiple-choice questions.
  /// If the weights have an average, it takes their place for its loss on the same batches, and no
  /// bit of the training has changed afterwards. Throws if there is no eval data, and like
  /// result().
  Evaluation evaluate();

  /// Writes a text for each of eval.prompts, of which there must be one, with the current weights
  /// (SampleWriter). Changes nothing of the training. Throws like result().
  std::vector<ModelSample> write_samples();

  /// Calls `question` with the model, its current weights, and the first sample of the evaluation
  /// data, which there must be. Changes nothing of the training. Throws like result().
  using AskModel =
      std::function<void(QueriedModel& model, const Tokenizer& tokenizer, const Sample& sample)>;
  void ask(const AskModel& question);

  /// Returns the histograms of all parameters, with the gradients of the last step. Throws like
  /// result().
  std::vector<ParameterHistograms> histograms();

  /// Saves a checkpoint; one `by_time` gives way to the next. Throws like result(); nothing is
  /// saved then.
  SavedCheckpoint save(const SaveObserver& observer = {}, bool by_time = false);

  /// Like save(), but only copies what this rank writes; the rest happens while steps continue.
  /// Call finish_save() before the next save.
  void begin_save(const SaveObserver& observer = {}, bool by_time = false);
  /// Whether a save has begun and neither poll_save() nor finish_save() has reported its end or
  /// failure. The same on all ranks.
  bool saving() const { return background_save_.pending(); }
  /// Call it between steps while saving(). Returns the checkpoint once it is saved. Throws on all
  /// ranks if the save failed. Exchanges two numbers.
  std::optional<SavedCheckpoint> poll_save() { return background_save_.poll(); }
  /// Like poll_save(), but waits until the save is done.
  SavedCheckpoint finish_save() { return background_save_.finish(); }

  /// Number of samples in the training data, and its parts. With the seed, they determine the order
  /// of samples.
  int64_t num_train_samples() const { return batches_.num_train_samples(); }
  const GpuVersions& gpu_versions() const { return gpu_versions_; }
  const std::vector<TrainPart>& train_parts() const { return train_parts_; }
  int64_t steps_done() const { return steps_done_; }
  int64_t samples_done() const { return samples_; }
  /// How far the run is: tokens, rollbacks, evaluations and samples.
  const RunState& run() const { return run_; }
  /// The datasets' tokenizer; may be null.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  /// Number of micro-steps launched as CUDA graphs.
  int64_t graph_launches() const { return micro_steps_.launches(); }
  const MemoryPlan& memory() const { return memory_; }
  /// Memory in use now, in the lines of memory(). For activations, the peak so far.
  std::vector<MemoryPlan::Line> memory_in_use() const;
  const ParameterStore& parameters() const { return store_; }
  const OptimizerState& optimizer_state() const { return *state_; }

  /// To compute a step again. What is done with the parts must change neither weights nor moments.
  StepParts parts();
  /// The place in the run's order of the first sample of step number `step`, counted from 1.
  int64_t first_place(int64_t step) const;

 private:
  /// The work since the last result.
  struct SinceResult {
    int64_t steps = 0;
    int64_t tokens = 0;
    int64_t targets = 0;
    std::chrono::steady_clock::time_point start;
    double flops = 0.0;
    double data_wait_seconds = 0.0;
  };

  void start_at(int64_t step, int64_t samples, RunState run);
  /// Loads a checkpoint, to continue with the sample at this place.
  void restore_at(Checkpoint& checkpoint, int64_t samples);
  /// Starts loading the data of the first step here, before the weights are set.
  void load_first_step(int64_t step, int64_t samples);

  void require_finite_steps();
  /// Describes a step that was skipped and, if it was not finite and no weight has changed since,
  /// computes it again. Collective.
  BadStep describe_bad_step(int64_t step, const BadReason& reason);
  /// Takes the note to the user about the work since the last result: a sentence, or "".
  std::string take_note();
  /// Adds a sentence about steps that were skipped since the last result.
  void add_skipped_steps(const StepRecord& record, StepResult& result);
  RunState state_to_save(bool by_time) const;
  /// Throws on all ranks if the weights must not be saved.
  SaveRequest save_request(const SaveObserver& observer, bool by_time);

  RunConfig config_;
  const ParallelGroups& groups_;
  SequenceShard rows_;  // how tensor ranks share activations
  ParameterStore store_;
  std::optional<OptimizerState> state_;
  std::optional<ShardedUnits> units_;
  std::unique_ptr<Model> model_;
  MemoryPlan memory_;
  Arena arena_;
  TokenBatches batches_;
  std::vector<TrainPart> train_parts_;
  GpuVersions gpu_versions_;
  std::vector<std::shared_ptr<const ChoiceDataset>> choices_;
  std::vector<TokenBatches> choice_batches_;  // of each
  std::shared_ptr<const Dataset> eval_;       ///< may be null
  std::vector<EvalDataset> eval_datasets_;
  std::shared_ptr<const Tokenizer> tokenizer_;  ///< may be null
  TokenBytes token_bytes_;                      ///< known only with evaluation data
  std::shared_ptr<const ChatForm> chat_;        ///< may be null
  DeviceBatch device_batch_;                    // the current micro-batch on the device
  StepBatches step_batches_;
  PrefetchedEvaluation eval_batches_;
  MicroSteps micro_steps_;  // destroyed before the memory that its graphs use
  std::unique_ptr<TrainStep> train_step_;
  TargetCounts counts_;  // of the current step
  SinceResult since_result_;
  NoiseScale noise_scale_;
  bool said_no_targets_ = false;
  int64_t said_skipped_ = 0;       // steps, on this rank
  int64_t described_skipped_ = 0;  // steps, on all ranks alike
  std::optional<BadStep> failed_step_;
  int64_t steps_done_ = 0;
  int64_t samples_ = 0;  // the position in the global order of samples
  RunState run_;
  std::optional<ReplicaCheck> replica_check_;  // with train.check_replicas_interval
  std::optional<SampleWriter> sample_writer_;  // with eval.prompts
  BackgroundSave background_save_;
};

}  // namespace tessera
