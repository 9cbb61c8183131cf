#include "launch/train/step_batches.h"

namespace tessera {

void StepBatches::begin_at(int64_t place, int64_t steps) {
  device_batch_.discard_staged();
  place_ = place;
  steps_ = steps;
  if (steps_ > 0) prefetched_.begin_at(place_);
}

TargetCounts StepBatches::load() {
  device_batch_.discard_staged();  // of a step that failed
  TargetCounts counts;
  for (const BatchBuffers& loaded : prefetched_.take(place_)) counts.add(loaded.batch());
  stage(0);
  return counts;
}

void StepBatches::load_next() {
  place_ += batches_.global_batch();
  if (--steps_ > 0) prefetched_.load_next(place_);
}

TokenBatch StepBatches::batch(int64_t i) {
  TokenBatch batch = device_batch_.upload(prefetched_.current()[static_cast<size_t>(i)]);
  stage(i + 1);
  return batch;
}

void StepBatches::stage(int64_t i) {
  if (i < size()) device_batch_.stage(prefetched_.current()[static_cast<size_t>(i)]);
}

}  // namespace tessera
