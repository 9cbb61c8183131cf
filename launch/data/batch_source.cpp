#include "launch/data/batch_source.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/data/sample_order.h"

namespace tessera {
namespace {

/// Row `row` of a (B, T) tensor.
std::span<int32_t> row_of(const Tensor& tensor, int64_t row) {
  return tensor.slice(row, row + 1).span<int32_t>();
}

void check_output(const Tensor& tensor, int64_t rows, int64_t seq_length, const char* name) {
  require_shape(tensor, {rows, seq_length}, "batch", name);
  require_dtype(tensor, DType::i32, "batch", name);
  require(tensor.device().is_cpu(), "batch: {} must be in host memory, but is {}", name,
          describe(tensor));
}

}  // namespace

BatchSource::BatchSource(std::shared_ptr<const GptDataset> train,
                         std::shared_ptr<const GptDataset> eval, uint64_t seed,
                         const BatchLayout& layout)
    : train_(std::move(train)), eval_(std::move(eval)), seed_(seed), layout_(layout) {
  require(train_ != nullptr, "a batch source needs a dataset to train on");
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

Range BatchSource::global_rows(int64_t micro_index) const {
  require(0 <= micro_index && micro_index < num_micro_batches_,
          "there is no micro-batch {}: a step has {}", micro_index, num_micro_batches_);
  const int64_t begin =
      (layout_.data_rank * num_micro_batches_ + micro_index) * layout_.micro_batch;
  return {begin, begin + layout_.micro_batch};
}

void BatchSource::load_train(int64_t first_global_sample, int64_t micro_index, Tensor tokens,
                             Tensor targets) const {
  const Range rows = global_rows(micro_index);
  check_output(tokens, rows.size(), train_->seq_length(), "tokens");
  check_output(targets, rows.size(), train_->seq_length(), "targets");
  for (int64_t row = 0; row < rows.size(); ++row) {
    const int64_t sample =
        sample_at(seed_, train_->num_samples(), first_global_sample + rows.begin + row);
    train_->fill(sample, row_of(tokens, row), row_of(targets, row));
  }
}

int64_t BatchSource::num_eval_batches() const {
  return eval_ == nullptr ? 0 : ceil_div(eval_->num_samples(), layout_.global_batch);
}

void BatchSource::load_eval(int64_t batch_index, int64_t micro_index, Tensor tokens,
                            Tensor targets) const {
  require(0 <= batch_index && batch_index < num_eval_batches(),
          "there is no eval batch {}: the eval dataset has {}", batch_index, num_eval_batches());
  const Range rows = global_rows(micro_index);
  check_output(tokens, rows.size(), eval_->seq_length(), "tokens");
  check_output(targets, rows.size(), eval_->seq_length(), "targets");
  for (int64_t row = 0; row < rows.size(); ++row) {
    const int64_t sample = batch_index * layout_.global_batch + rows.begin + row;
    if (sample < eval_->num_samples()) {
      eval_->fill(sample, row_of(tokens, row), row_of(targets, row));
    } else {
      std::ranges::fill(row_of(tokens, row), 0);
      std::ranges::fill(row_of(targets, row), kIgnoreTarget);
    }
  }
}

}  // namespace tessera
