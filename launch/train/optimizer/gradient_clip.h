#pragma once

#include <cstdint>

#include "core/memory.h"
#include "core/ops/clip.h"
#include "core/parameters/parameter.h"
#include "models/losses.h"
#include "parallel/gradient_norm.h"

namespace tessera {

/// Computes the global gradient norm, the gradient scale and a record of both on the gradients'
/// device, without waiting for it. A step whose loss or norm is not finite changes no weight. After
/// more of these than are allowed, no later step is recorded or changes a weight until reset().
class GradientClip {
 public:
  /// `store` must be allocated; it, `tp` and `dp` must outlive this. `max_norm` 0 disables
  /// clipping. `max_skipped_steps` may be skipped. `dp` may be null if this rank owns the whole
  /// store.
  GradientClip(const ParameterStore& store, Communicator& tp, double max_norm,
               int64_t max_skipped_steps, Communicator* dp = nullptr);

  /// Forgets all steps and failures, but counts `skipped_steps` of before.
  void reset(int64_t skipped_steps = 0);

  /// Returns the gradient scale for Optimizer::step(), (1) fp32, for step number `step`. `sums` are
  /// summed over the data ranks, as the gradients are. Collective like GradientNorm::sum_squares().
  const Tensor& scale(int64_t step, const LossSums& sums);

  /// The record of the last step, or of the first that failed, in host memory until the next call.
  /// Waits for the device.
  const StepRecord& record();

 private:
  GradientNorm norm_;
  double max_norm_;
  int64_t max_skipped_steps_;
  OwnedTensor squares_;     // (1) fp64
  OwnedTensor scale_;       // (1) fp32
  OwnedTensor record_;      // (4 + LossSums::kCount) fp64
  OwnedTensor host_;        // like record_, in host memory
  StepRecord host_record_;  // a view of host_
};

}  // namespace tessera
