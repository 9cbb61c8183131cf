#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/range.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/data/sample.h"

namespace tessera {

/// How a step's batch is divided: each data rank gets a contiguous part, and each of its
/// micro-batches a contiguous part of that.
struct BatchLayout {
  int64_t global_batch = 1;  ///< sequences per step
  int64_t micro_batch = 1;   ///< sequences per forward pass on a rank
  int data_rank = 0;
  int data_size = 1;
};

/// Loads this data rank's micro-batches. The samples of a step and their order over all data ranks
/// and micro-batches are the same for every layout.
class TokenBatches {
 public:
  /// Either dataset may be null if nothing is loaded from it. `vocab_size` is the model's. Throws
  /// unless the global batch is a multiple of data_size × micro_batch.
  TokenBatches(std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> eval,
               int64_t vocab_size, uint64_t seed, const BatchLayout& layout);

  int64_t num_train_samples() const { return train_ == nullptr ? 0 : train_->num_samples(); }

  /// The number of samples in a step, over all data ranks.
  int64_t global_batch() const { return layout_.global_batch; }

  /// The number of micro-batches in each step and each eval batch.
  int64_t num_micro_batches() const { return num_micro_batches_; }

  /// Returns the rows of the global batch in this rank's micro-batch `micro_index`.
  Range global_rows(int64_t micro_index) const;

  /// Loads rows global_rows(micro_index) of the step at place `first_global_sample` of the run's
  /// sample order (sample_order.h, or the dataset's own), each as in the epoch of its place. The
  /// next step starts global_batch places later. Overwrites `buffers`, which must have micro_batch
  /// rows, and returns a view of them. Throws as BatchBuffers::append does, naming the dataset and
  /// the sample.
  TokenBatch load_train(int64_t first_global_sample, int64_t micro_index,
                        BatchBuffers& buffers) const;

  /// The training sample at a place of the run's order.
  int64_t train_sample_at(int64_t place) const;

  /// The origins of its texts (Dataset::origins).
  std::vector<TextOrigin> train_origins_at(int64_t place) const;

  /// Asks the system to prefetch what load_train() will read for all micro-batches of this step.
  void will_load_train(int64_t first_global_sample) const;

  /// The number of eval batches with at least one sample; 0 without an eval dataset.
  int64_t num_eval_batches() const;

  /// Like load_train(), for rows global_rows(micro_index) of eval batch `batch_index`: samples
  /// batch_index × global_batch onward in natural order, always as in epoch 0, so that every
  /// evaluation sees the same data. Rows beyond the last sample have no tokens.
  TokenBatch load_eval(int64_t batch_index, int64_t micro_index, BatchBuffers& buffers) const;

  /// Like will_load_train(), for all micro-batches of an eval batch.
  void will_load_eval(int64_t batch_index) const;

 private:
  /// Returns the rows of the global batch in all of this rank's micro-batches.
  Range all_rows() const;
  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> eval_;
  int64_t vocab_size_;
  uint64_t seed_;
  BatchLayout layout_;
  int64_t num_micro_batches_ = 0;
};

}  // namespace tessera
