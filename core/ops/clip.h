#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

/// What a training step came to, in one fp64 tensor, so that the host reads it with one copy.
struct StepRecord {
  static constexpr int64_t kFirstLoss = 2;

  Tensor values;  // (2 + K) fp64

  Tensor step() const { return values.slice(0, 1); }  ///< its number
  Tensor norm() const { return values.slice(1, 2); }  ///< of the gradient, before clipping
  Tensor losses() const { return values.slice(kFirstLoss, values.dim(0)); }  ///< (K)
};

/// Chooses by what adamw_step() multiplies the gradients of step number `step`, without the host:
///
///     norm = √squares,  grad_scale = min(1, max_norm / norm), or 1 if max_norm is 0,
///
/// and writes step, norm and losses to `record`. If the norm or one of the losses is not finite,
/// grad_scale becomes NaN, with which adamw_step() changes nothing. A grad_scale that is NaN before
/// the call stays so, and the record with it: after a step that failed, no later one changes a
/// weight, and the record says which it was.
///
/// squares (1) fp64: Σ grad² of the whole model; losses (K) fp64: the sums of the step's losses;
/// grad_scale (1) fp32, read and written, which starts as anything but NaN. All on one device; what
/// is written shares no memory with anything else. max_norm is finite and at least 0.
void clip_scale(int64_t step, double max_norm, const Tensor& squares, const Tensor& losses,
                const StepRecord& record, Tensor grad_scale);

}  // namespace tessera
