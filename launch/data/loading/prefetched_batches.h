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

/// This data rank's micro-batches of training steps, in buffers for two steps: while a step works
/// on one, a thread of its own loads the next into the other, so that the step waits for no disk.
/// Another thread lets the system fetch what the steps after that will read, and waits where the
/// disk takes no more requests.
/// What is loaded is what TokenBatches::load_train() gives, whoever asks and whenever.
class PrefetchedBatches {
 public:
  /// Steps after the one that is being loaded of which the system knows what they will read: so
  /// long may the disk be busy with something else, and it never runs out of requests. What they
  /// read is little beside a host's memory: 2 to 4 bytes a token.
  static constexpr int64_t kStepsAnnounced = 8;

  /// `batches`, which must outlive it, has micro-batches of so many rows of so many tokens.
  PrefetchedBatches(const TokenBatches& batches, int64_t micro_batch, int64_t seq_length,
                    Device for_device = kCpu);

  /// Begins to load the step at this place in place of what is being loaded: where a run starts, so
  /// that its first step finds its data.
  void begin_at(int64_t first_global_sample);

  /// The micro-batches of the step that starts at place `first_global_sample`, until the next
  /// take(). Waits until they are loaded; what load_next() was not asked for is loaded now. Throws
  /// what load_train() throws.
  std::vector<BatchBuffers>& take(int64_t first_global_sample);

  /// Begins to load the step at this place, and lets the system fetch what the steps after it read.
  /// Waits, on the calling thread, until the step before is on its device.
  void load_next(int64_t first_global_sample);

  /// What take() gave last.
  std::vector<BatchBuffers>& current() { return sets_[current_]; }

  /// Host memory of the buffers.
  size_t bytes() const;

 private:
  void load(int64_t first_global_sample, std::vector<BatchBuffers>& into) const;
  /// Begins to announce what was not yet, unless that is still under way.
  void announce(int64_t first_global_sample);

  const TokenBatches& batches_;
  std::vector<BatchBuffers> sets_[2];  // each with a micro-batch's buffers one after the other
  size_t current_ = 0;
  std::optional<int64_t> next_;  // what is being loaded into the other set
  int64_t announced_from_ = 0;   // the steps that were announced, by their places
  int64_t announced_until_ = 0;
  BackgroundThread announcer_, thread_;  // the last: they end before what they work on
};

}  // namespace tessera
