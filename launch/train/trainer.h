#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/save.h"
#include "launch/config/run_config.h"
#include "launch/data/token_batches.h"
#include "launch/tokenizer/tokenizer.h"
#include "launch/train/evaluation.h"
#include "launch/train/memory_plan.h"
#include "launch/train/optimizer.h"
#include "models/model.h"
#include "parallel/gradient_reducer.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The data of a run.
struct TrainingData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> eval;  ///< may be null
  /// What the datasets' tokens mean, which checkpoints keep; null in a test that needs none.
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> notes = {};  ///< what a person should know of it, in sentences
};

struct StepResult {
  int64_t step = 0;  ///< steps done, this one included
  Losses losses;     ///< before the update
  double loss() const { return losses.total(); }
  double grad_norm = 0.0;  ///< before clipping
  double lr = 0.0;
  int64_t tokens = 0;         ///< of this step, all ranks, without padding
  int64_t padded_tokens = 0;  ///< with padding
  double seconds = 0.0;
};

/// One rank's part in training a model: everything that a step touches, and what a checkpoint
/// holds. All public functions but the getters are collective over the world.
class Trainer {
 public:
  /// Allocates everything, from the dry run's plan. `groups` must outlive the trainer. The weights
  /// are zeros until initialize(), restore() or start_from().
  Trainer(const RunConfig& config, const ParallelGroups& groups, const TrainingData& data);

  /// Initial weights, step 0.
  void initialize();

  /// Goes on where the checkpoint stands.
  void restore(Checkpoint& checkpoint);

  /// The checkpoint's weights as initial ones, step 0. Heads that the checkpoint's model has not
  /// start anew, those that only it has are left out; returns a sentence that names them, or "".
  std::string start_from(Checkpoint& checkpoint);

  /// One optimizer step. Throws, naming the step, and changes no weight if the loss or the gradient
  /// is not finite.
  StepResult step();

  /// Over min(eval.batches, all) batches of the eval data; throws if there is none.
  Evaluation evaluate();

  SavedCheckpoint save(const SaveObserver& observer = {});

  /// Samples in the training data: with the seed, what the order of samples depends on.
  int64_t num_train_samples() const { return batches_.num_train_samples(); }
  int64_t steps_done() const { return steps_done_; }
  int64_t samples_done() const { return samples_; }
  /// Without padding.
  int64_t tokens_done() const { return tokens_; }
  /// What the datasets' tokens mean; may be null.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  const MemoryPlan& memory() const { return memory_; }
  const ParameterStore& parameters() const { return store_; }

 private:
  StepContext context(int64_t micro, bool training);
  /// Loads all micro-batches with `load(micro, buffers)`; throws on all ranks or none.
  using LoadMicroBatch = std::function<TokenBatch(int64_t micro, BatchBuffers&)>;
  void load_batch(const LoadMicroBatch& load);
  /// Of what is loaded, on all ranks.
  TargetCounts count_targets();
  Losses mean_losses(const TargetCounts& counts);
  void require_finite(double value, const char* what) const;

  RunConfig config_;
  const ParallelGroups& groups_;
  ParameterStore store_;
  std::unique_ptr<Model> model_;
  MemoryPlan memory_;
  Arena arena_;
  TokenBatches batches_;
  bool has_eval_;
  std::shared_ptr<const Tokenizer> tokenizer_;  ///< may be null
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<BatchBuffers> buffers_;  // one a micro-batch
  std::vector<TokenBatch> loaded_;     // what is in them
  OwnedTensor sums_;                   // (LossSums::kCount) fp64
  int64_t steps_done_ = 0;
  int64_t samples_ = 0;  // the position in the global order of samples
  int64_t tokens_ = 0;
};

}  // namespace tessera
