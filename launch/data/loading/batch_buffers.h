#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/memory.h"
#include "core/trace/device_mark.h"
#include "launch/data/sample.h"
#include "models/token_batch.h"

namespace tessera {

/// Host memory for one micro-batch of B rows of T tokens, as much as any batch can need, and the
/// batch that is put together in it, row by row. Nothing is allocated after it was made, except
/// that a dataset lets scratch() grow.
class BatchBuffers {
 public:
  /// Throws unless both are at least 1 and B × T fits into an int32. Batches for a GPU go to it
  /// from pinned memory.
  BatchBuffers(int64_t sequences, int64_t seq_length, Device for_device = kCpu);

  int64_t sequences() const { return sequences_; }
  int64_t seq_length() const { return seq_length_; }
  /// Host memory of the batch, without scratch().
  size_t bytes() const;

  /// Starts a new batch, without rows. What batch() gave before is overwritten; waits until it is
  /// on its device.
  void clear();

  /// When the batch was on its way to a device last: see DeviceBatch.
  DeviceMark& uploaded() { return uploaded_; }

  /// Appends a row. Throws, naming `dataset` and `number` (of the sample), if there are B rows
  /// already, if the sample has more than T tokens, an input or target outside of [0, vocab_size),
  /// a token type less than 0, a label less than 0 that is not kIgnoreTarget, or if its parts have
  /// not the sizes that sample.h says; then there is no such row.
  void append(const Sample& sample, int64_t vocab_size, std::string_view dataset, int64_t number);

  /// Appends a row of nothing but padding.
  void append_empty();

  /// The rows so far; what is missing up to B is padding. A view that lives until clear().
  TokenBatch batch() const;

  /// For a dataset to fill: its memory is kept from row to row.
  Sample& scratch() { return scratch_; }

 private:
  int64_t sequences_;
  int64_t seq_length_;
  OwnedTensor tokens_;       // (B × T), as the others, of which the batch has the first
  OwnedTensor positions_;    // (B × T)
  OwnedTensor token_types_;  // (B × T)
  OwnedTensor padded_rows_;  // (B × T)
  OwnedTensor documents_;    // (B × T + 1)
  OwnedTensor target_rows_;  // (B × T)
  OwnedTensor targets_;      // (B × T)
  OwnedTensor labels_;       // (B × T)
  DeviceMark uploaded_;
  int64_t num_rows_ = 0;
  int64_t num_tokens_ = 0;
  int64_t num_documents_ = 0;
  int64_t num_targets_ = 0;
  int64_t document_length_ = 0;  // of all documents so far; 0: they differ, or there are none
  Sample scratch_;
};

/// The most that a micro-batch of B rows of T tokens can be, N = S = M = B × T, without data: for
/// dry runs.
TokenBatch full_batch_on_meta(int64_t sequences, int64_t seq_length);

}  // namespace tessera
