#include "launch/data/loading/prefetched_batches.h"

#include <algorithm>

#include "core/error.h"

namespace tessera {

PrefetchedBatches::PrefetchedBatches(const TokenBatches& batches, const BatchShape& shape,
                                     Device for_device)
    : batches_(batches) {
  for (std::vector<BatchBuffers>& set : sets_) {
    for (int64_t micro = 0; micro < batches.num_micro_batches(); ++micro) {
      set.emplace_back(shape, for_device);
    }
  }
}

void PrefetchedBatches::begin_at(int64_t first_global_sample) {
  // Drop an unused step, including its error.
  thread_.discard();
  next_.reset();
  load_next(first_global_sample);
}

std::vector<BatchBuffers>& PrefetchedBatches::take(int64_t first_global_sample) {
  if (next_ != first_global_sample) begin_at(first_global_sample);
  next_.reset();
  thread_.wait();
  current_ = 1 - current_;
  return sets_[current_];
}

void PrefetchedBatches::load_next(int64_t first_global_sample) {
  require(!next_, "the step at sample {} is already being loaded", next_.value_or(0));
  std::vector<BatchBuffers>& other = sets_[1 - current_];
  // Wait here and not in the background: only this thread has a GPU and watches the other ranks
  // while waiting.
  for (BatchBuffers& buffers : other) buffers.uploaded().wait();
  announce(first_global_sample);
  thread_.start([this, first_global_sample, &other] { load(first_global_sample, other); });
  next_ = first_global_sample;
}

size_t PrefetchedBatches::bytes() const {
  size_t sum = 0;
  for (const std::vector<BatchBuffers>& set : sets_) {
    for (const BatchBuffers& buffers : set) sum += buffers.bytes();
  }
  return sum;
}

void PrefetchedBatches::load(int64_t first_global_sample, std::vector<BatchBuffers>& into) const {
  for (size_t micro = 0; micro < into.size(); ++micro) {
    batches_.load_train(first_global_sample, static_cast<int64_t>(micro), into[micro]);
  }
}

// Announces each step once, before its own pages are loaded one by one, so that the disk always has
// several requests.
void PrefetchedBatches::announce(int64_t first_global_sample) {
  if (announcer_.running()) return;  // the disk is busy; the next call continues here
  announcer_.wait();
  const int64_t size = batches_.global_batch();
  if (first_global_sample < announced_from_ || announced_until_ < first_global_sample) {
    announced_until_ = first_global_sample;
  }
  announced_from_ = first_global_sample;
  const int64_t from = announced_until_;
  const int64_t until = first_global_sample + (1 + kStepsAnnounced) * size;
  announcer_.start([this, from, until, size] {
    try {
      for (int64_t step = from; step < until; step += size) batches_.will_load_train(step);
    } catch (const std::exception&) {  // loading the sample reports the error
    }
  });
  announced_until_ = std::max(from, until);
}

}  // namespace tessera
