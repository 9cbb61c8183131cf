#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/device.h"
#include "core/threads/background_thread.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/token_batches.h"

namespace tessera {

/// This data rank's micro-batches of training steps, double-buffered: while a step uses one set, a
/// background thread loads the next, so that steps do not wait for the disk. A second thread asks
/// the system to prefetch the data of later steps, and waits if the disk's request queue is full.
/// The data is that of TokenBatches::load_train(), independent of timing.
class PrefetchedBatches {
 public:
  /// The number of later steps to prefetch. It covers pauses of the disk and keeps its queue
  /// filled, and needs little host memory: 2 to 4 bytes per token.
  static constexpr int64_t kStepsAnnounced = 8;

  /// `batches` must outlive this object. `shape` is that of its micro-batches.
  PrefetchedBatches(const TokenBatches& batches, const BatchShape& shape, Device for_device = kCpu);

  /// Starts loading this step and drops any other. Call it at the start of a run, to have the data
  /// ready for the first step.
  void begin_at(int64_t first_global_sample);

  /// Returns the micro-batches of the step at place `first_global_sample`, valid until the next
  /// take(). Waits for a load that load_next() started, or loads the step now. Throws as
  /// load_train() does.
  std::vector<BatchBuffers>& take(int64_t first_global_sample);

  /// Starts loading this step and prefetching later ones. First waits, on the calling thread, until
  /// the previous step is on its device.
  void load_next(int64_t first_global_sample);

  /// The result of the last take().
  std::vector<BatchBuffers>& current() { return sets_[current_]; }

  /// Returns the host memory of the buffers.
  size_t bytes() const;

 private:
  void load(int64_t first_global_sample, std::vector<BatchBuffers>& into) const;
  /// Starts announcing further steps, unless that is still in progress.
  void announce(int64_t first_global_sample);

  const TokenBatches& batches_;
  std::vector<BatchBuffers> sets_[2];  // each is one set of buffers, one per micro-batch
  size_t current_ = 0;
  std::optional<int64_t> next_;  // the step being loaded into the other set
  int64_t announced_from_ = 0;   // the announced steps, by their places
  int64_t announced_until_ = 0;
  BackgroundThread announcer_,
      thread_;  // declared last: they stop before what they use is destroyed
};

}  // namespace tessera
