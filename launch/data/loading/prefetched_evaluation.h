#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/device.h"
#include "core/threads/background_thread.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/token_batches.h"

namespace tessera {

/// This data rank's micro-batches of an evaluation, one after the other, in buffers for two: while
/// one is evaluated, a thread of its own loads the next, so that none waits for the disk. What is
/// loaded is what TokenBatches::load_eval() gives.
class PrefetchedEvaluation {
 public:
  /// `batches`, which must outlive it, has micro-batches of so many rows of so many tokens.
  PrefetchedEvaluation(const TokenBatches& batches, int64_t micro_batch, int64_t seq_length,
                       Device for_device = kCpu);

  /// Begins to load the first of `num_batches` eval batches, whatever was loaded before.
  void start(int64_t num_batches);

  /// The next micro-batch: all of a batch in order, then those of the next batch. It stays until
  /// the next call, from when on it is loaded over. Waits until it is loaded, and, on
  /// the calling thread, until the one before is on its device. Throws what load_eval() throws, or
  /// if there is none left.
  BatchBuffers& take();

  /// Whether take() has another.
  bool has_next() const { return next_ < count_; }

  /// Host memory of the buffers.
  size_t bytes() const;

 private:
  void announce(int64_t batch) const;
  /// Begins to load micro-batch next_, if there is one, where the one before the last was.
  void load_next();

  const TokenBatches& batches_;
  std::vector<BatchBuffers> buffers_;  // two
  int64_t next_ = 0;                   // the micro-batch of the evaluation that take() gives
  int64_t count_ = 0;                  // those of the evaluation
  BackgroundThread thread_;            // the last: it ends before what it works on
};

}  // namespace tessera
