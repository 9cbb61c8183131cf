#pragma once

#include <cstdint>
#include <memory>

#include "core/range.h"
#include "core/tensor.h"
#include "launch/data/batch_layout.h"
#include "launch/data/gpt_dataset.h"

namespace tessera {

/// Loads this data rank's micro-batches. Which samples make up a step is the same for every layout:
/// the union over data ranks and micro-batches never changes, nor does its order.
class BatchSource {
 public:
  /// `eval` may be null. Throws unless the global batch is a multiple of data_size × micro_batch.
  BatchSource(std::shared_ptr<const GptDataset> train, std::shared_ptr<const GptDataset> eval,
              uint64_t seed, const BatchLayout& layout);

  int64_t num_train_samples() const { return train_->num_samples(); }

  /// Micro-batches of each step, and of each eval batch.
  int64_t num_micro_batches() const { return num_micro_batches_; }

  /// The rows of the global batch that this rank's micro-batch `micro_index` has.
  Range global_rows(int64_t micro_index) const;

  /// Loads rows global_rows(micro_index) of the step that starts at place `first_global_sample` of
  /// the whole run's order of samples (sample_order.h); the next step starts global_batch later.
  /// tokens, targets: (B, T) int32 in host memory, B = micro_batch, T = seq_length.
  void load_train(int64_t first_global_sample, int64_t micro_index, Tensor tokens,
                  Tensor targets) const;

  /// Eval batches that hold at least one sample; 0 without an eval dataset.
  int64_t num_eval_batches() const;

  /// Loads rows global_rows(micro_index) of eval batch `batch_index`: samples batch_index ×
  /// global_batch onward, in their natural order. Rows beyond the last sample are zeros with
  /// kIgnoreTarget as targets. Shapes as in load_train.
  void load_eval(int64_t batch_index, int64_t micro_index, Tensor tokens, Tensor targets) const;

 private:
  std::shared_ptr<const GptDataset> train_;
  std::shared_ptr<const GptDataset> eval_;
  uint64_t seed_;
  BatchLayout layout_;
  int64_t num_micro_batches_ = 0;
};

}  // namespace tessera
