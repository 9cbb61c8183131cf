#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

/// The results of a training step in one fp64 tensor, so that the host reads them with one copy.
struct StepRecord {
  static constexpr int64_t kStep = 0, kNorm = 1, kMedian = 2, kSkippedSteps = 3,
                           kLastSkippedStep = 4, kLastSkippedNorm = 5, kLastSkippedMedian = 6,
                           kFirstLoss = 7;

  Tensor values;  // (7 + K) fp64

  Tensor step() const { return number(kStep); }  ///< the number of the step
  Tensor norm() const { return number(kNorm); }  ///< the gradient norm before clipping
  /// The median norm that the step's was compared with; 0: none.
  Tensor median() const { return number(kMedian); }
  /// Steps that were not finite, or spikes, so far.
  Tensor skipped_steps() const { return number(kSkippedSteps); }
  Tensor last_skipped_step() const { return number(kLastSkippedStep); }  ///< 0: none
  Tensor last_skipped_norm() const { return number(kLastSkippedNorm); }
  Tensor last_skipped_median() const { return number(kLastSkippedMedian); }
  Tensor losses() const { return values.slice(kFirstLoss, values.dim(0)); }  ///< (K)

 private:
  Tensor number(int64_t i) const { return values.slice(i, i + 1); }
};

/// The rule by which clip_scale() scales a gradient.
struct ClipRule {
  double max_norm = 0.0;          ///< finite, at least 0; 0 does not clip
  int64_t max_skipped_steps = 0;  ///< at least 0
  double spike_factor = 0.0;      ///< finite, at least 1; or 0: no step is a spike
};

/// The gradient norms of the last W steps that were not skipped.
struct NormHistory {
  /// (1 + W) fp64, W ≥ 1: how many norms were added so far, then a ring of the last W of them: the
  /// i-th, from 0, is at 1 + i mod W.
  Tensor values;
};

/// Computes on the device by what adamw_step() multiplies the gradients of step number `step`:
///
///     norm = √squares,  grad_scale = min(1, max_norm / norm), or 1 if max_norm is 0,
///
/// and writes step, norm and losses to `record`. A step is bad if its norm or a loss is not finite,
/// or if it is a spike: `history` holds W norms, and the norm is more than spike_factor × their
/// median (of an even number, the lower one). A bad step is counted in the record, grad_scale
/// becomes NaN, and adamw_step() changes nothing: the step is skipped. The norm of any other step
/// is added to the history. After more than `max_skipped_steps` bad steps, grad_scale stays NaN and
/// the record unchanged: no later step changes a weight, and the record is that of the step that
/// failed.
///
/// squares (1) fp64: Σ grad² of the whole model; losses (K) fp64: the loss sums of the step;
/// grad_scale (1) fp32, written. `history` is needed if rule.spike_factor is not 0, and otherwise
/// undefined. Initialize the record and the history with zeros, or with what they were before. All
/// on one device; outputs may not alias anything.
void clip_scale(int64_t step, const ClipRule& rule, const Tensor& squares, const Tensor& losses,
                const NormHistory& history, const StepRecord& record, Tensor grad_scale);

}  // namespace tessera
