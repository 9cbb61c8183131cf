#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

/// The results of a training step in one fp64 tensor, so that the host reads them with one copy.
struct StepRecord {
  static constexpr int64_t kStep = 0, kNorm = 1, kSkippedSteps = 2, kLastSkippedStep = 3,
                           kFirstLoss = 4;

  Tensor values;  // (4 + K) fp64

  Tensor step() const { return number(kStep); }  ///< the number of the step
  Tensor norm() const { return number(kNorm); }  ///< the gradient norm before clipping
  /// Steps that were not finite, so far.
  Tensor skipped_steps() const { return number(kSkippedSteps); }
  Tensor last_skipped_step() const { return number(kLastSkippedStep); }      ///< 0: none
  Tensor losses() const { return values.slice(kFirstLoss, values.dim(0)); }  ///< (K)

 private:
  Tensor number(int64_t i) const { return values.slice(i, i + 1); }
};

/// Computes on the device by what adamw_step() multiplies the gradients of step number `step`:
///
///     norm = √squares,  grad_scale = min(1, max_norm / norm), or 1 if max_norm is 0,
///
/// and writes step, norm and losses to `record`. If the norm or a loss is not finite, the step is
/// counted in the record, grad_scale becomes NaN, and adamw_step() changes nothing: the step is
/// skipped. After more than `max_skipped_steps` of these, grad_scale stays NaN and the record
/// unchanged: no later step changes a weight, and the record is that of the step that failed.
///
/// squares (1) fp64: Σ grad² of the whole model; losses (K) fp64: the loss sums of the step;
/// grad_scale (1) fp32, written. Initialize the record with zeros, or the number of steps skipped
/// before. All on one device; outputs may not alias anything. max_norm must be finite and at least
/// 0.
void clip_scale(int64_t step, double max_norm, int64_t max_skipped_steps, const Tensor& squares,
                const Tensor& losses, const StepRecord& record, Tensor grad_scale);

}  // namespace tessera
