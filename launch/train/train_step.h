#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/arena.h"
#include "core/memory.h"
#include "launch/config/sections.h"
#include "launch/metrics/evaluation.h"
#include "launch/metrics/noise_scale.h"
#include "launch/train/optimizer/weight_update.h"
#include "models/layers/contrastive_loss.h"
#include "models/model.h"
#include "parallel/local_gradient_norm.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The source of a step's micro-batches on one data rank.
class MicroBatchSource {
 public:
  virtual ~MicroBatchSource() = default;

  /// Waits until the step's micro-batches are loaded, and returns their counts. May throw on one
  /// rank alone.
  virtual TargetCounts load() = 0;
  /// Starts loading the next step's micro-batches. Called after all ranks have loaded this step's.
  virtual void load_next() = 0;
  /// Number of micro-batches, the same for every step.
  virtual int64_t size() const = 0;
  /// Index within the global batch of the first sequence of micro-batch i.
  virtual int64_t first_sequence(int64_t i) const = 0;
  /// Micro-batch i on the model's device, valid until the next call.
  virtual TokenBatch batch(int64_t i) = 0;
};

/// Runs forward and backward of one micro-batch. An embedding head needs the second pair of
/// functions, other heads the first one.
class MicroStepRunner {
 public:
  virtual ~MicroStepRunner() = default;

  /// See Model::train().
  virtual void run(const StepContext& ctx, const TokenBatch& batch, const LossWeights& weights,
                   const LossSums& sums) = 0;

  /// See Model::embed() and embed_backward().
  virtual Tensor embed(const StepContext& ctx, const TokenBatch& batch, float length) = 0;
  virtual void embed_backward(const StepContext& ctx, const TokenBatch& batch,
                              const Tensor& gradient) = 0;
};

/// One optimizer step on one rank: load, forward and backward of each micro-batch, reduce, clip,
/// update, gather. The only place that knows this order: the trainer runs it, the memory plan runs
/// it on the meta device, and `tessera plan` runs it with communicators that have no peers.
class TrainStep {
 public:
  /// Data that a step loaded from its source.
  struct Loaded {
    TargetCounts counts;        ///< over all data ranks
    double wait_seconds = 0.0;  ///< the longest wait of a rank for its data
  };

  /// `arena` provides the activations. `units` are those of the model that `runner` runs. All
  /// arguments but `options` must outlive this.
  TrainStep(const StepOptions& options, MicroStepRunner& runner, OptimizerState& state,
            ShardedUnits& units, const ParallelGroups& groups, Arena& arena);

  /// Runs step number `step`, counted from 0. Only enqueues work on the device. Throws on all ranks
  /// if loading failed on one. Collective over the world.
  Loaded run(int64_t step, MicroBatchSource& batches);

  /// Rounds the values once after reset(), with stochastic rounding, and after swap_average(), as
  /// the last of `steps_done` steps left them, because the masters came from elsewhere. run() does
  /// this by itself. Collective.
  void round_values(int64_t steps_done);

  /// Exchanges the masters with their average; see Optimizer::swap_average().
  void swap_average();

  /// Call it after loading or initializing weights: forgets all steps and failures except for those
  /// of `before`.
  void reset(const ClipState& before = {});

  /// Computes losses and gradients of a step again with another runner, and sums the gradients, but
  /// changes no weight and records nothing. The same bits as in run() if `batches`, the weights and
  /// the runner's results are the same. Throws like run(). Collective over the world.
  void compute_gradients(int64_t step, MicroBatchSource& batches, MicroStepRunner& runner);

  /// Whether run() measures the gradient of the first micro-batch in step number `step`, counted
  /// from 0, for the noise scale (StepOptions::noise_scale_interval).
  bool measures_noise(int64_t step) const;
  /// Returns, for the last step that measured, the squared norm of the mean gradient of a data
  /// rank's first micro-batch, averaged over the data ranks, and that of the step. Waits for the
  /// device.
  GradientSquares gradient_squares();

  /// The context of micro-batch i of a step.
  StepContext context_of(int64_t step, const MicroBatchSource& batches, int64_t i) const;

  /// The part of the past that decides whether a step is skipped. Waits for the device.
  ClipState clip_state() { return update_.clip().state(); }

  /// Bytes of gradients that are reduced in bf16.
  size_t gradient_copy_bytes() const { return update_.gradient_copy_bytes(); }

  /// Losses and gradient norm of the last step, or of the one that was not finite and could not be
  /// skipped.
  const StepRecord& record() { return update_.clip().record(); }

 private:
  Loaded load(MicroBatchSource& batches) const;
  void forward_and_backward(int64_t step, MicroBatchSource& batches, MicroStepRunner& runner,
                            const TargetCounts& counts, bool measures_noise);
  /// Runs the first of `micro_batches` and measures its gradient. If that is also the last one,
  /// hands over all gradients.
  void measure_first(int64_t micro_batches, const std::function<void()>& run);
  /// Trains an embedding head, whose loss compares the texts of the global batch. With several
  /// micro-batches, embeds all of them without keeping activations, and then each again for its
  /// backward pass (Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited
  /// Setup", 2021). Dropout draws the same numbers both times, so the gradients are exact.
  void embed_and_backward(int64_t step, MicroBatchSource& batches, MicroStepRunner& runner,
                          const TargetCounts& counts);
  void require_all_gradients() const;

  StepOptions options_;
  MicroStepRunner& runner_;
  ParameterStore& store_;
  ShardedUnits& units_;
  const ParallelGroups& groups_;
  Arena& arena_;
  WeightUpdate update_;
  OwnedTensor sums_;                             // (LossSums::kCount) fp64
  std::optional<ContrastiveLoss> contrastive_;   // with an embedding head
  std::optional<LocalGradientNorm> local_norm_;  // with noise_scale_interval
  OwnedTensor first_squares_;                    // (1) fp64, of the last measurement
  bool values_are_rounded_ = true;               // false after reset(): masters came from elsewhere
};

/// A step's batch, split over the data ranks.
struct BatchShare {
  int64_t local_batch;    ///< sequences per data rank
  int64_t micro_batches;  ///< per data rank
};

/// Throws, naming both keys, if batch.global is not a multiple of batch.micro × data ranks.
BatchShare batch_share(const BatchSection& batch, int data_ranks);

}  // namespace tessera
