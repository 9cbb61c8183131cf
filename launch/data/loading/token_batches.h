#pragma once

#include <cstdint>
#include <memory>

#include "core/range.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/loading/batch_layout.h"
#include "launch/data/sample.h"

namespace tessera {

/// Loads this data rank's micro-batches. Which samples make up a step is the same for every layout:
/// the union over data ranks and micro-batches never changes, nor does its order.
class TokenBatches {
 public:
  /// Either dataset may be null, and nothing is loaded from it then. `vocab_size` is the model's.
  /// Throws unless the global batch is a multiple of data_size × micro_batch.
  TokenBatches(std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> eval,
               int64_t vocab_size, uint64_t seed, const BatchLayout& layout);

  int64_t num_train_samples() const { return train_ == nullptr ? 0 : train_->num_samples(); }

  /// Samples of a step, of all data ranks.
  int64_t global_batch() const { return layout_.global_batch; }

  /// Micro-batches of each step, and of each eval batch.
  int64_t num_micro_batches() const { return num_micro_batches_; }

  /// The rows of the global batch that this rank's micro-batch `micro_index` has.
  Range global_rows(int64_t micro_index) const;

  /// Loads rows global_rows(micro_index) of the step that starts at place `first_global_sample` of
  /// the whole run's order of samples (sample_order.h, or that of a dataset that has one), each as
  /// it is in the epoch that its place is in; the next step starts global_batch later. Overwrites
  /// `buffers`, which must have micro_batch rows, and returns a view of them. Throws, naming the
  /// dataset and the sample, what BatchBuffers::append does.
  TokenBatch load_train(int64_t first_global_sample, int64_t micro_index,
                        BatchBuffers& buffers) const;

  /// Lets the system fetch from the disk, meanwhile, what load_train() will read for all
  /// micro-batches of the step that starts at this place.
  void will_load_train(int64_t first_global_sample) const;

  /// Eval batches that hold at least one sample; 0 without an eval dataset.
  int64_t num_eval_batches() const;

  /// As load_train, for rows global_rows(micro_index) of eval batch `batch_index`: samples
  /// batch_index × global_batch onward, in their natural order, and always as they are in epoch 0,
  /// so that every evaluation sees the same. Rows beyond the last sample have no tokens.
  TokenBatch load_eval(int64_t batch_index, int64_t micro_index, BatchBuffers& buffers) const;

  /// As will_load_train(), for all micro-batches of an eval batch.
  void will_load_eval(int64_t batch_index) const;

 private:
  /// The rows of the global batch that all of this rank's micro-batches have.
  Range all_rows() const;
  /// The number of the training sample at a place of the run's order.
  int64_t train_sample_at(int64_t place) const;

  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> eval_;
  int64_t vocab_size_;
  uint64_t seed_;
  BatchLayout layout_;
  int64_t num_micro_batches_ = 0;
};

}  // namespace tessera
