#include "launch/data/prefetched_batches.h"

#include "core/error.h"

namespace tessera {

PrefetchedBatches::PrefetchedBatches(const TokenBatches& batches, int64_t micro_batch,
                                     int64_t seq_length, Device for_device)
    : batches_(batches) {
  for (std::vector<BatchBuffers>& set : sets_) {
    for (int64_t micro = 0; micro < batches.num_micro_batches(); ++micro) {
      set.emplace_back(micro_batch, seq_length, for_device);
    }
  }
}

std::vector<BatchBuffers>& PrefetchedBatches::take(int64_t first_global_sample) {
  if (next_ && *next_ != first_global_sample) {
    // Another step is asked for, as after a restore: what is wrong with this one does not matter.
    try {
      thread_.wait();
    } catch (const std::exception&) {
    }
    next_.reset();
  }
  if (!next_) load_next(first_global_sample);
  next_.reset();
  thread_.wait();
  current_ = 1 - current_;
  return current();
}

void PrefetchedBatches::load_next(int64_t first_global_sample) {
  require(!next_, "the step at sample {} is being loaded already", next_.value_or(0));
  std::vector<BatchBuffers>& other = sets_[1 - current_];
  // Here and not in the background: only this thread has a GPU, and looks after the other ranks
  // while it waits for it.
  for (BatchBuffers& buffers : other) buffers.uploaded().wait();
  thread_.start([this, first_global_sample, &other] { load(first_global_sample, other); });
  next_ = first_global_sample;
}

// First the system hears of all that will be read, so that the disk has more than one page to fetch
// at a time, and in the end of the next step's, which it has a whole step's time for.
void PrefetchedBatches::load(int64_t first_global_sample, std::vector<BatchBuffers>& into) const {
  batches_.will_load_train(first_global_sample);
  for (size_t micro = 0; micro < into.size(); ++micro) {
    batches_.load_train(first_global_sample, static_cast<int64_t>(micro), into[micro]);
  }
  batches_.will_load_train(first_global_sample + batches_.global_batch());
}

}  // namespace tessera
