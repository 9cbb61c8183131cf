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
#include "launch/checkpoint/save/background_save.h"
#include "launch/checkpoint/save/save.h"
#include "launch/config/run_config.h"
#include "launch/data/loading/device_batch.h"
#include "launch/data/loading/prefetched_batches.h"
#include "launch/data/loading/prefetched_evaluation.h"
#include "launch/data/loading/token_batches.h"
#include "launch/data/open_data.h"
#include "launch/metrics/evaluation.h"
#include "launch/metrics/step_result.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/train/memory/memory_plan.h"
#include "launch/train/micro_steps.h"
#include "launch/train/train_step.h"
#include "models/model.h"
#include "parallel/process_grid.h"

namespace tessera {

/// One rank's part in training a model: everything that a step touches, and what a checkpoint
/// holds. All public functions but the getters are collective over the world.
class Trainer : private MicroBatchSource {
 public:
  /// Allocates everything on `device`, from the dry run's plan. `groups` must outlive the trainer
  /// and move tensors of the device. The weights are zeros until initialize(), restore() or
  /// start_from().
  /// Throws, with the plan, if it needs more than `free_bytes` of a GPU.
  Trainer(const RunConfig& config, const ParallelGroups& groups, const TrainingData& data,
          Device device = kCpu, size_t free_bytes = SIZE_MAX);

  /// Initial weights, step 0.
  void initialize();

  /// Goes on where the checkpoint stands.
  void restore(Checkpoint& checkpoint);

  /// The checkpoint's weights as initial ones, step 0. Heads that the checkpoint's model has not,
  /// or for other labels, start anew, those that only it has are left out; returns a sentence that
  /// names them, or "".
  std::string start_from(Checkpoint& checkpoint);

  /// One optimizer step, of which the host enqueues the work and waits for none; the next step's
  /// data are loaded meanwhile. Throws, on all ranks, if a sample is damaged. If the loss or the
  /// gradient is not finite, neither this step nor a later one changes a weight, and the next
  /// result(), evaluate() or save() throws.
  void step();

  /// What was done since the last result, which must be a step at least. Waits for the device.
  /// Throws, naming the step, if a loss or a gradient was not finite.
  StepResult result();

  /// As result(), for one rank alone, and not collective: an error is left to the next call that
  /// all ranks make.
  StepResult local_result();

  /// Whether a result has to be waited for, so that asking after every step would cost time.
  bool results_wait() const { return !store_.device().is_cpu(); }

  /// Over min(eval.batches, all) batches of the eval data; throws if there is none, and as result()
  /// does.
  Evaluation evaluate();

  /// Throws as result() does, too; then nothing is saved.
  SavedCheckpoint save(const SaveObserver& observer = {});

  /// As save(), but only copies what this rank writes; the rest is done while steps go on. The next
  /// save has to wait for finish_save().
  void begin_save(const SaveObserver& observer = {});
  /// Whether a save was begun of which neither poll_save() nor finish_save() has said that it is
  /// done or has failed. The same on all ranks.
  bool saving() const { return background_save_.pending(); }
  /// To be called between steps while saving(): what was saved, when it is. Throws, on all ranks,
  /// if it has failed. Two numbers are exchanged.
  std::optional<SavedCheckpoint> poll_save() { return background_save_.poll(); }
  /// As poll_save(), but waits until it is done.
  SavedCheckpoint finish_save() { return background_save_.finish(); }

  /// Samples in the training data, and in each part of it: with the seed, what the order of samples
  /// depends on.
  int64_t num_train_samples() const { return batches_.num_train_samples(); }
  const std::vector<TrainPart>& train_parts() const { return train_parts_; }
  int64_t steps_done() const { return steps_done_; }
  int64_t samples_done() const { return samples_; }
  /// Without padding.
  int64_t tokens_done() const { return tokens_; }
  /// What the datasets' tokens mean; may be null.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  /// Micro-steps that were launched as CUDA graphs.
  int64_t graph_launches() const { return micro_steps_.launches(); }
  const MemoryPlan& memory() const { return memory_; }
  /// What there is now, in the lines of memory(): of activations the most that were in use so far.
  std::vector<MemoryPlan::Line> memory_in_use() const;
  const ParameterStore& parameters() const { return store_; }

 private:
  /// What was done since the last result.
  struct SinceResult {
    int64_t steps = 0;
    int64_t tokens = 0;
    std::chrono::steady_clock::time_point start;
    double flops = 0.0;
    double data_wait_seconds = 0.0;
  };

  void start_at(int64_t step, int64_t samples, int64_t tokens);
  /// Begins to load what the first step here needs, while the weights are still to come.
  void load_first_step(int64_t step, int64_t samples);
  // MicroBatchSource: this data rank's micro-batches of the next step.
  TargetCounts load() override;
  void load_next() override;
  int64_t size() const override { return batches_.num_micro_batches(); }
  int64_t first_sequence(int64_t i) const override { return batches_.global_rows(i).begin; }
  TokenBatch batch(int64_t i) override;

  void require_finite_steps();
  /// Throws on all ranks if the weights are not fit to be saved.
  SaveRequest save_request(const SaveObserver& observer);

  RunConfig config_;
  const ParallelGroups& groups_;
  RowSplit rows_;  // of activations, over the tensor ranks
  ParameterStore store_;
  std::unique_ptr<Model> model_;
  MemoryPlan memory_;
  Arena arena_;
  TokenBatches batches_;
  std::vector<TrainPart> train_parts_;
  bool has_eval_;
  std::shared_ptr<const Tokenizer> tokenizer_;  ///< may be null
  PrefetchedBatches prefetched_;
  PrefetchedEvaluation eval_batches_;
  DeviceBatch device_batch_;  // the one that the model works on
  MicroSteps micro_steps_;    // ends before the memory that its graphs use
  std::unique_ptr<TrainStep> train_step_;
  TargetCounts counts_;  // of the step
  SinceResult since_result_;
  int64_t steps_done_ = 0;
  int64_t samples_ = 0;  // the position in the global order of samples
  int64_t tokens_ = 0;
  BackgroundSave background_save_;
};

}  // namespace tessera
