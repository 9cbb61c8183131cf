#pragma once

#include <cstdint>
#include <vector>

#include "core/memory.h"
#include "core/ops/clip.h"
#include "core/parameters/parameter.h"
#include "models/losses.h"
#include "parallel/gradient_norm.h"

namespace tessera {

/// The part of a run's past that decides whether a step is skipped.
struct ClipState {
  int64_t skipped_steps = 0;
  /// The gradient norms of the last steps that were not skipped, in order; empty if no step is a
  /// spike.
  std::vector<double> norms = {};
};

/// Computes the global gradient norm, the gradient scale and a record of both on the gradients'
/// device, without waiting for it. A step whose loss or norm is not finite, or whose norm is a
/// spike, changes no weight. After more of these than are allowed, no later step is recorded or
/// changes a weight until reset().
class GradientClip {
 public:
  /// `store` must be allocated; it and `groups` must outlive this. With rule.spike_factor, the
  /// median is that of `spike_window` norms.
  GradientClip(const ParameterStore& store, const ParallelGroups& groups, const ClipRule& rule,
               int64_t spike_window = 0);

  /// Forgets all steps and failures except for those of `before`, whose last norms it uses.
  void reset(const ClipState& before = {});

  /// Returns the same state on every rank. Waits for the device.
  ClipState state();

  /// Returns the gradient scale for Optimizer::step(), (1) fp32, for step number `step`. `sums` are
  /// summed over the replicas, as the gradients are. Collective like GradientNorm::sum_squares().
  const Tensor& scale(int64_t step, const LossSums& sums);

  /// The record of the last step, or of the first that failed, in host memory until the next call.
  /// Waits for the device.
  const StepRecord& record();

 private:
  GradientNorm norm_;
  ClipRule rule_;
  OwnedTensor squares_;     // (1) fp64
  OwnedTensor scale_;       // (1) fp32
  OwnedTensor norms_;       // (1 + spike_window) fp64; undefined without spike_factor
  OwnedTensor record_;      // (7 + LossSums::kCount) fp64
  OwnedTensor host_;        // like record_, in host memory
  StepRecord host_record_;  // a view of host_
};

}  // namespace tessera
