#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/device.h"
#include "core/threads/background_thread.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/token_batches.h"

namespace tessera {

/// This data rank's micro-batches of an evaluation in order, double-buffered: a background thread
/// loads the next while one is evaluated, so that none waits for the disk. The data is that of
/// TokenBatches::load_eval().
class PrefetchedEvaluation {
 public:
  /// `batches` must outlive this object. `shape` is that of its micro-batches.
  PrefetchedEvaluation(const TokenBatches& batches, const BatchShape& shape,
                       Device for_device = kCpu);

  /// Starts loading the first of `num_batches` eval batches and drops earlier loads.
  void start(int64_t num_batches);
  /// As above, for other data, with micro-batches of the same shape, until the next start().
  /// `batches` must outlive this object.
  void start(const TokenBatches& batches, int64_t num_batches);

  /// Returns the next micro-batch: those of an eval batch in order, then those of the next. It is
  /// valid until the next call. Waits until it is loaded and, on the calling thread, until the
  /// previous one is on its device. Throws as load_eval() does, and if there is none left.
  BatchBuffers& take();

  /// Returns whether take() has another micro-batch.
  bool has_next() const { return next_ < count_; }

  /// Returns the host memory of the buffers.
  size_t bytes() const;

 private:
  void announce(int64_t batch) const;
  /// Starts loading micro-batch next_, if any, into the buffers that are free.
  void load_next();

  const TokenBatches& own_batches_;
  const TokenBatches* batches_;        // that are being loaded
  std::vector<BatchBuffers> buffers_;  // two
  int64_t next_ = 0;                   // micro-batch that take() returns next
  int64_t count_ = 0;                  // number of micro-batches in the evaluation
  BackgroundThread thread_;            // declared last: it stops before what it uses is destroyed
};

}  // namespace tessera
