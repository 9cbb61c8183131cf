#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory.h"
#include "core/trace/device_mark.h"
#include "launch/config/masking_options.h"
#include "launch/data/loading/context_cut.h"
#include "launch/data/loading/padded_sizes.h"
#include "launch/data/sample.h"
#include "models/architecture.h"
#include "models/token_batch.h"

namespace tessera {

/// The largest micro-batch of a model.
struct BatchShape {
  int64_t sequences;          ///< B rows
  int64_t seq_length;         ///< T tokens of a row
  int64_t label_width = 0;    ///< K, as in ModelTraits
  int64_t patch_width = 0;    ///< D numbers of a patch; 0: tokens are ids
  int64_t source_length = 0;  ///< Ts source tokens of a row; 0: rows have no source
  /// The first tokens of a document that see each other (ModelConfig::attention_prefix): all but
  /// the last see their targets, which are left out.
  int64_t prefix = 0;
  bool hides_targets = false;  ///< no token attends to those with a target (MaskHide::attention)
  bool repeats_sizes = false;  ///< batches get padding on their device, so that few sizes occur
  ContextShape context = {};   ///< of batches that are cut over context ranks
};

/// The shape of micro-batches of B rows for a model, also for one whose masked LM may hide targets.
BatchShape batch_shape(int64_t sequences, const ModelTraits& traits);
BatchShape batch_shape(int64_t sequences, const ModelConfig& model, const MaskingOptions& mlm);
/// Assembles a micro-batch of up to B rows of T tokens, row by row, in host memory that is
/// allocated once for the largest possible batch. Only scratch() may grow.
class BatchBuffers {
 public:
  /// Throws unless B and T are at least 1 and B × T and B × Ts fit into an int32. Batches for a GPU
  /// use pinned memory.
  explicit BatchBuffers(const BatchShape& shape, Device for_device = kCpu);

  int64_t sequences() const { return shape_.sequences; }
  int64_t seq_length() const { return shape_.seq_length; }
  /// Returns the host memory of the batch, without scratch().
  size_t bytes() const;

  /// Starts a new batch without rows, which overwrites the previous batch(). Waits until that is on
  /// its device.
  void clear();

  /// The last upload to a device; see DeviceBatch.
  DeviceMark& uploaded() { return uploaded_; }

  /// Appends a row. Throws, naming `dataset` and `number` (of the sample), and appends nothing if
  /// there are B rows already, if the sample has more than T tokens or Ts source tokens, a token or
  /// target outside [0, vocab_size), a negative token type, or a negative label other than
  /// kIgnoreTarget, or if its parts do not have the sizes in sample.h. With a label width, a sample
  /// is one document.
  void append(const Sample& sample, int64_t vocab_size, std::string_view dataset, int64_t number);

  /// Appends a row of padding.
  void append_empty();

  /// Ends a batch: takes this context rank's part of it, if batches are cut.
  void finish();

  /// Returns a view of the rows so far, valid until clear(), or this context rank's part of the
  /// batch that was finished. Missing rows are padding.
  TokenBatch batch() const { return cut_ ? cut_->batch() : whole(); }
  /// Returns a view of the rows of all context ranks.
  TokenBatch whole() const;

  /// Returns batch() with the padding of BatchShape::repeats_sizes behind its documents: documents
  /// without a label, of tokens that no other token sees, and targets without a loss. No loss or
  /// gradient depends on them, except for the order of sums. Invalidates no view of batch().
  TokenBatch padded_batch();

  /// Sample::dataset of each row so far; 0 for padding. Valid until clear().
  std::span<const int32_t> datasets() const {
    return {datasets_.data(), static_cast<size_t>(num_rows_)};
  }

  /// A sample for datasets to fill; its memory is reused for each row.
  Sample& scratch() { return scratch_; }

 private:
  void append_source(const Sample& sample);
  void append_padding(const BatchSizes& sizes);

  BatchShape shape_;
  OwnedTensor tokens_;             // (B × T), like the others; the batch is a prefix
  OwnedTensor positions_;          // (B × T)
  OwnedTensor token_types_;        // (B × T)
  OwnedTensor padded_rows_;        // (B × T)
  std::vector<int32_t> datasets_;  // (B)
  OwnedTensor documents_;          // (B × T + 1)
  OwnedTensor target_rows_;        // (B × T)
  OwnedTensor targets_;            // (B × T)
  OwnedTensor
      padded_target_rows_;      // (B × T), like the next, with padding; empty unless sizes repeat
  OwnedTensor padded_targets_;  // (B × T)
  OwnedTensor hidden_;          // (B × T) uint8; empty unless targets are hidden
  OwnedTensor labels_;          // (B × T)
  OwnedTensor patches_;         // (B × T, D) fp32; empty if D is 0
  OwnedTensor label_values_;    // (B, K) fp32; 0 × 0 if K is 0
  /// Buffers of the source texts, each (B × Ts), but the last (B × T + 1); empty if Ts is 0.
  OwnedTensor source_tokens_, source_positions_, source_padded_rows_, source_documents_;
  std::optional<CutBuffers> cut_;
  DeviceMark uploaded_;
  int64_t num_rows_ = 0;
  int64_t num_tokens_ = 0;
  int64_t num_documents_ = 0;
  int64_t num_targets_ = 0;
  int64_t num_source_tokens_ = 0;
  int64_t document_length_ = 0;  // of every document so far; 0: not uniform, or no documents
  Sample scratch_;
};

/// Returns the largest micro-batch, N = S = M = B × T and Ns = B × Ts, without data, for dry runs.
/// It is whole.
TokenBatch full_batch_on_meta(const BatchShape& shape);

/// Leaves the first `count` documents of such a batch, with their labels and sources.
void keep_documents(TokenBatch& batch, int64_t count);

}  // namespace tessera
