#include "launch/data/loading/prefetched_evaluation.h"

#include <utility>

#include "core/error.h"

namespace tessera {

PrefetchedEvaluation::PrefetchedEvaluation(const TokenBatches& batches, const BatchShape& shape,
                                           Device for_device)
    : own_batches_(batches), batches_(&batches) {
  for (int i = 0; i < 2; ++i) buffers_.emplace_back(shape, for_device);
}

void PrefetchedEvaluation::start(int64_t num_batches) { start(own_batches_, num_batches); }

void PrefetchedEvaluation::start(const TokenBatches& batches, int64_t num_batches) {
  // Drop a load left behind by an evaluation that failed.
  thread_.discard();
  batches_ = &batches;
  next_ = 0;
  count_ = num_batches * batches_->num_micro_batches();
  if (count_ > 0) announce(0);
  load_next();
}

BatchBuffers& PrefetchedEvaluation::take() {
  require(next_ < count_, "all {} micro-batches of the evaluation have been read", count_);
  const int64_t count = std::exchange(count_, 0);  // a failure ends the evaluation
  thread_.wait();
  count_ = count;
  BatchBuffers& taken = buffers_[static_cast<size_t>(next_ % 2)];
  ++next_;
  load_next();
  return taken;
}

// Loading the batch will report its errors.
void PrefetchedEvaluation::announce(int64_t batch) const {
  try {
    batches_->will_load_eval(batch);
  } catch (const std::exception&) {
  }
}

void PrefetchedEvaluation::load_next() {
  if (next_ == count_) return;
  BatchBuffers& into = buffers_[static_cast<size_t>(next_ % 2)];
  into.uploaded().wait();  // wait here: only this thread has a GPU
  const int64_t batch = next_ / batches_->num_micro_batches();
  const int64_t micro = next_ % batches_->num_micro_batches();
  const bool hints = micro == 0 && next_ + batches_->num_micro_batches() < count_;
  thread_.start([this, batch, micro, hints, &into] {
    if (hints) announce(batch + 1);
    batches_->load_eval(batch, micro, into);
  });
}

size_t PrefetchedEvaluation::bytes() const { return buffers_[0].bytes() + buffers_[1].bytes(); }

}  // namespace tessera
