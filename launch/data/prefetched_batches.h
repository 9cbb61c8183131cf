#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/background_thread.h"
#include "core/device.h"
#include "launch/data/batch_buffers.h"
#include "launch/data/token_batches.h"

namespace tessera {

/// This data rank's micro-batches of training steps, in buffers for two steps: while a step works
/// on one, a thread of its own loads the next into the other, so that the step waits for no disk.
/// What is loaded is what TokenBatches::load_train() gives, whoever asks and whenever.
class PrefetchedBatches {
 public:
  /// `batches`, which must outlive it, has micro-batches of so many rows of so many tokens.
  PrefetchedBatches(const TokenBatches& batches, int64_t micro_batch, int64_t seq_length,
                    Device for_device = kCpu);

  /// The micro-batches of the step that starts at place `first_global_sample`, until the next
  /// take(). Waits until they are loaded; what load_next() was not asked for is loaded now. Throws
  /// what load_train() throws.
  std::vector<BatchBuffers>& take(int64_t first_global_sample);

  /// Begins to load the step at this place, and lets the system fetch what the one after it reads.
  /// Waits, on the calling thread, until the step before is on its device.
  void load_next(int64_t first_global_sample);

  /// What take() gave last. For other batches, which take the place of those.
  std::vector<BatchBuffers>& current() { return sets_[current_]; }

 private:
  void load(int64_t first_global_sample, std::vector<BatchBuffers>& into) const;

  const TokenBatches& batches_;
  std::vector<BatchBuffers> sets_[2];  // each with a micro-batch's buffers one after the other
  size_t current_ = 0;
  std::optional<int64_t> next_;  // what is being loaded into the other set
  BackgroundThread thread_;      // the last: it ends before what it works on
};

}  // namespace tessera
