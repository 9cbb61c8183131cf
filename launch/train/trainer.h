#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/save.h"
#include "launch/config/run_config.h"
#include "launch/data/batch_source.h"
#include "launch/tokenizer/tokenizer.h"
#include "launch/train/memory_plan.h"
#include "launch/train/optimizer.h"
#include "models/gpt.h"
#include "parallel/gradient_reducer.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The data of a run.
struct TrainingData {
  std::shared_ptr<const GptDataset> train;
  std::shared_ptr<const GptDataset> eval;  ///< may be null
  /// What the datasets' tokens mean, which checkpoints keep; null in a test that needs none.
  std::shared_ptr<const Tokenizer> tokenizer;
};

struct StepResult {
  int64_t step = 0;        ///< steps done, this one included
  double loss = 0.0;       ///< mean over the step's target tokens, before the update
  double grad_norm = 0.0;  ///< before clipping
  double lr = 0.0;
  int64_t tokens = 0;  ///< of this step, all ranks
  double seconds = 0.0;
};

/// One rank's part in training a model: everything that a step touches, and what a checkpoint
/// holds. All public functions but the getters are collective over the world.
class Trainer {
 public:
  /// Allocates everything, from the dry run's plan. `groups` must outlive the trainer. The weights
  /// are zeros until initialize() or restore().
  Trainer(const RunConfig& config, const ParallelGroups& groups, const TrainingData& data);

  /// Initial weights, step 0.
  void initialize();

  /// Goes on where the checkpoint stands.
  void restore(Checkpoint& checkpoint);

  /// The checkpoint's weights as initial ones, step 0.
  void start_from(Checkpoint& checkpoint);

  /// One optimizer step. Throws, naming the step, and changes no weight if the loss or the gradient
  /// is not finite.
  StepResult step();

  /// The mean loss over min(eval.batches, all) batches of the eval data.
  double evaluate();

  SavedCheckpoint save(const SaveObserver& observer = {});

  /// Samples in the training data: with the seed, what the order of samples depends on.
  int64_t num_train_samples() const { return batches_.num_train_samples(); }
  int64_t steps_done() const { return steps_done_; }
  int64_t samples_done() const { return samples_; }
  const MemoryPlan& memory() const { return memory_; }
  const ParameterStore& parameters() const { return store_; }

 private:
  StepContext context(int64_t micro, bool training);
  /// Fills tokens_ and targets_, micro-batch by micro-batch; throws on all ranks or none.
  using LoadMicroBatch = std::function<void(int64_t micro, const Tensor&, const Tensor&)>;
  void load_batch(const LoadMicroBatch& load);
  int64_t count_targets();
  double mean_loss(int64_t targets);
  Tensor micro_rows(const OwnedTensor& batch, int64_t micro) const;
  void require_finite(double value, const char* what) const;

  RunConfig config_;
  const ParallelGroups& groups_;
  ParameterStore store_;
  Gpt model_;
  MemoryPlan memory_;
  Arena arena_;
  BatchSource batches_;
  bool has_eval_;
  std::shared_ptr<const Tokenizer> tokenizer_;  ///< may be null
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  OwnedTensor tokens_, targets_;  // (local_batch, T) int32
  OwnedTensor loss_sum_;          // (1) fp64
  int64_t steps_done_ = 0;
  int64_t samples_ = 0;  // the position in the global order of samples
};

}  // namespace tessera
