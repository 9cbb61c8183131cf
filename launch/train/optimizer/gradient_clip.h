#pragma once

#include <cstdint>

#include "core/memory.h"
#include "core/ops/clip.h"
#include "core/parameters/parameter.h"
#include "models/model.h"
#include "parallel/gradient_norm.h"

namespace tessera {

/// Ends a step's backward pass where the gradients are, without waiting for them: the global norm,
/// by what the gradients are scaled, and a record of both that the host may ask for. A step whose
/// loss or norm is not finite is the last that is recorded, and no later one changes a weight,
/// until reset().
class GradientClip {
 public:
  /// `store` is allocated; it, `tp` and `dp` must outlive this. `max_norm` 0 means no clipping.
  /// `dp` may be null where this rank owns all of the store.
  GradientClip(const ParameterStore& store, Communicator& tp, double max_norm,
               Communicator* dp = nullptr);

  /// No step was taken, and none failed.
  void reset();

  /// What Optimizer::step() takes, (1) fp32, for step number `step` with these sums of losses,
  /// summed over the data ranks as the gradients are. Collective as GradientNorm::sum_squares() is.
  const Tensor& scale(int64_t step, const LossSums& sums);

  /// Of the last step, or the first that failed, in host memory until the next call. Waits for the
  /// device.
  const StepRecord& record();

 private:
  GradientNorm norm_;
  double max_norm_;
  OwnedTensor squares_;     // (1) fp64
  OwnedTensor scale_;       // (1) fp32
  OwnedTensor record_;      // (2 + LossSums::kCount) fp64
  OwnedTensor host_;        // as record_, in host memory
  StepRecord host_record_;  // a view of host_
};

}  // namespace tessera
