#include "launch/data/loading/token_batches.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/data/sampling/sample_order.h"

namespace tessera {
namespace {

constexpr const char* kTrainingData = "training data";
constexpr const char* kEvalData = "evaluation data";

void check_rows(const BatchBuffers& buffers, Range rows) {
  require(buffers.sequences() == rows.size(),
          "there are buffers for {} sequences, but a micro-batch has {}", buffers.sequences(),
          rows.size());
}

}  // namespace

TokenBatches::TokenBatches(std::shared_ptr<const Dataset> train,
                           std::shared_ptr<const Dataset> eval, int64_t vocab_size, uint64_t seed,
                           const BatchLayout& layout)
    : train_(std::move(train)),
      eval_(std::move(eval)),
      vocab_size_(vocab_size),
      seed_(seed),
      layout_(layout) {
  require(layout.global_batch >= 1 && layout.micro_batch >= 1,
          "batch.global is {} and batch.micro is {}, but both must be at least 1",
          layout.global_batch, layout.micro_batch);
  require(0 <= layout.data_rank && layout.data_rank < layout.data_size,
          "there is no data rank {} among {}", layout.data_rank, layout.data_size);
  const int64_t local_batch =
      div_exact(layout.global_batch, layout.data_size, "batch.global", "the number of data ranks");
  num_micro_batches_ = div_exact(local_batch, layout.micro_batch,
                                 "a data rank's share of batch.global", "batch.micro");
}

Range TokenBatches::global_rows(int64_t micro_index) const {
  require(0 <= micro_index && micro_index < num_micro_batches_,
          "there is no micro-batch {}: a step has {}", micro_index, num_micro_batches_);
  const int64_t begin =
      (layout_.data_rank * num_micro_batches_ + micro_index) * layout_.micro_batch;
  return {begin, begin + layout_.micro_batch};
}

Range TokenBatches::all_rows() const {
  return {global_rows(0).begin, global_rows(num_micro_batches_ - 1).end};
}

TokenBatch TokenBatches::load_train(int64_t first_global_sample, int64_t micro_index,
                                    BatchBuffers& buffers) const {
  const Range rows = global_rows(micro_index);
  check_rows(buffers, rows);
  require(train_ != nullptr, "there is no training data");
  const int64_t num_samples = train_->num_samples();
  buffers.clear();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t place = first_global_sample + row;
    const int64_t sample = train_sample_at(place);
    train_->fill(sample, place / num_samples, buffers.scratch());
    buffers.append(buffers.scratch(), vocab_size_, kTrainingData, sample);
  }
  buffers.finish();
  return buffers.batch();
}

void TokenBatches::will_load_train(int64_t first_global_sample) const {
  if (train_ == nullptr) return;
  const Range rows = all_rows();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t place = first_global_sample + row;
    train_->will_fill(train_sample_at(place), place / train_->num_samples());
  }
}

int64_t TokenBatches::train_sample_at(int64_t place) const {
  const int64_t num_samples = train_->num_samples();
  return train_->has_order() ? place % num_samples : sample_at(seed_, num_samples, place);
}

std::vector<TextOrigin> TokenBatches::train_origins_at(int64_t place) const {
  return train_->origins(train_sample_at(place), place / train_->num_samples());
}

int64_t TokenBatches::num_eval_batches() const {
  return eval_ == nullptr ? 0 : ceil_div(eval_->num_samples(), layout_.global_batch);
}

TokenBatch TokenBatches::load_eval(int64_t batch_index, int64_t micro_index,
                                   BatchBuffers& buffers) const {
  require(0 <= batch_index && batch_index < num_eval_batches(),
          "there is no eval batch {}: the eval dataset has {}", batch_index, num_eval_batches());
  const Range rows = global_rows(micro_index);
  check_rows(buffers, rows);
  buffers.clear();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t sample = batch_index * layout_.global_batch + row;
    if (sample < eval_->num_samples()) {
      eval_->fill(sample, /*epoch=*/0, buffers.scratch());
      buffers.append(buffers.scratch(), vocab_size_, kEvalData, sample);
    } else {
      buffers.append_empty();
    }
  }
  buffers.finish();
  return buffers.batch();
}

void TokenBatches::will_load_eval(int64_t batch_index) const {
  if (eval_ == nullptr) return;
  const Range rows = all_rows();
  const int64_t first = batch_index * layout_.global_batch;
  const int64_t end = std::min(first + rows.end, eval_->num_samples());
  for (int64_t sample = first + rows.begin; sample < end; ++sample) {
    eval_->will_fill(sample, /*epoch=*/0);
  }
}

}  // namespace tessera
