#pragma once

#include <cstddef>
#include <cstdint>

#include "launch/data/loading/device_batch.h"
#include "launch/data/loading/prefetched_batches.h"
#include "launch/data/loading/token_batches.h"
#include "launch/train/train_step.h"

namespace tessera {

/// This data rank's micro-batches of one step after the other, each loaded while the step before
/// runs.
class StepBatches final : public MicroBatchSource {
 public:
  /// `batches` and `device_batch` must outlive this. `shape` is that of a micro-batch.
  StepBatches(const TokenBatches& batches, const BatchShape& shape, DeviceBatch& device_batch,
              Device device)
      : batches_(batches), device_batch_(device_batch), prefetched_(batches, shape, device) {}

  /// The next step begins at `place` of the run's order, and is the first of `steps`. Starts
  /// loading it.
  void begin_at(int64_t place, int64_t steps);

  TargetCounts load() override;
  void load_next() override;
  int64_t size() const override { return batches_.num_micro_batches(); }
  int64_t first_sequence(int64_t i) const override { return batches_.global_rows(i).begin; }
  TokenBatch batch(int64_t i) override;

  /// Host memory of the buffers.
  size_t bytes() const { return prefetched_.bytes(); }

 private:
  /// Starts to copy the next micro-batch to the GPU, if there is one.
  void stage(int64_t i);

  const TokenBatches& batches_;
  DeviceBatch& device_batch_;
  PrefetchedBatches prefetched_;
  int64_t place_ = 0;  // of the next step's first sample, once all ranks have loaded this step
  int64_t steps_ = 0;  // left
};

}  // namespace tessera
