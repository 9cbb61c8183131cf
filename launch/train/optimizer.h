#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/ops/adamw.h"
#include "core/parameter.h"
#include "launch/config/run_config.h"
#include "parallel/communicator.h"

namespace tessera {

/// AdamW over the flat buffers of a store. Neighbouring parameters that agree on weight decay are
/// updated as one range. Where data ranks share the store, each updates what it owns, and the
/// values of a bucket are gathered while the next one is updated.
class Optimizer {
 public:
  /// `store` and `dp` must outlive this. `dp` may be null where this rank owns all of the store.
  Optimizer(const OptimizerSection& settings, ParameterStore& store, Communicator* dp = nullptr);

  /// Update number `step` (counted from 0) from the gradients, which are multiplied by `grad_scale`
  /// first, (1) fp32 on the store's device; nothing changes if that is NaN. Collective over the
  /// data ranks that share the store.
  void step(int64_t step, double lr, const Tensor& grad_scale);

  size_t num_ranges() const { return ranges_.size(); }

 private:
  void update(const OwnedRange& range, AdamW adamw, const Tensor& grad_scale) const;
  std::unique_ptr<PendingCollective> gather(const FlatBucket& bucket) const;

  OptimizerSection settings_;
  const ParameterStore& store_;
  Communicator* owners_;            // null where this rank owns all
  std::vector<OwnedRange> ranges_;  // by whether their weights decay
};

}  // namespace tessera
