#pragma once

#include <cstdint>
#include <limits>

#include "core/masks/attention_mask.h"
#include "core/ops/attention.h"
#include "core/tensor.h"

/// Conversions between our tensors and those of cuDNN's attention.
namespace tessera::cuda {

/// The documents of a batch: `count` documents in rows b × seq_length + t, each of `length` rows
/// or, with mask.documents, of at most `length`.
struct DocumentPlaces {
  int64_t count, length, seq_length;
  bool ragged;
};

/// Tables that describe the documents of each call to cuDNN. A call may have room for more
/// documents than there are; those at the end are empty.
struct DocumentTables {
  int64_t documents;  ///< per call
  // The number of leading rows of a document that see a key, and that are seen. The other rows see
  // nothing, or mask.lengths hides them.
  int32_t* query_lengths;
  int32_t* key_lengths;
  // If ragged: the element of a document's first row in qkv, out and statistics. A call has one
  // more entry, the end of its last document.
  int32_t* qkv_offsets;
  int32_t* out_offsets;
  int32_t* statistics_offsets;

  /// Elements of each table per call: cuDNN may assume an alignment of 16 bytes.
  constexpr int64_t stride() const { return (documents + 1 + 3) / 4 * 4; }
  constexpr int64_t place_of(int64_t document) const {
    return document / documents * stride() + document % documents;
  }
};

/// The elements of a row of qkv, of out, and of the statistics.
struct RowElements {
  int32_t qkv, out, statistics;
};

/// Writes `tables` (calls × stride each) from the mask's documents, lengths and window.
void describe_documents(const AttentionMask& mask, const DocumentPlaces& places, int64_t calls,
                        const RowElements& elements, const DocumentTables& tables);

/// Elements of int64 per call in a table of seeds for cuDNN's dropout: a seed, and at
/// kOffsetInSeeds the offset, each aligned to 16 bytes.
inline constexpr int64_t kSeedStride = 4, kOffsetInSeeds = 2;

/// Writes the seeds (calls, kSeedStride) of an attention's dropout. They depend on the dropout's
/// seed, layer, step and first sequence, on this rank's first head and on the call.
void write_dropout_seeds(const AttentionOptions& options, int64_t calls, int64_t* seeds);

/// The layout of one number per head h and row n: at n / block × block × heads + h × head_stride +
/// n % block × row_stride.
struct StatisticsLayout {
  int64_t heads, rows;
  int64_t block, head_stride, row_stride;

  bool operator==(const StatisticsLayout&) const = default;
};

/// (rows / length, heads, length); log_sum_exp has this layout, with sequences as documents.
inline StatisticsLayout statistics_in_blocks(int64_t heads, int64_t rows, int64_t length) {
  return {heads, rows, length, length, 1};
}
/// (rows, heads).
inline StatisticsLayout statistics_in_rows(int64_t heads, int64_t rows) {
  return {heads, rows, rows, 1, heads};
}

/// Copies fp32 numbers of the same heads and rows from one layout to another; −∞, of a row that
/// sees nothing, becomes `of_nothing`.
void copy_statistics(const float* from, const StatisticsLayout& from_layout, float* to,
                     const StatisticsLayout& to_layout,
                     float of_nothing = -std::numeric_limits<float>::infinity());

/// Writes the results of rows and keys that cuDNN skipped, where it may have written anything:
/// zeros in out (rows, heads, head_dim), bf16, and −∞ in log_sum_exp, in `layout`.
void clear_blind_rows(const AttentionMask& mask, const DocumentPlaces& places,
                      const DocumentTables& tables, const StatisticsLayout& layout, Tensor out,
                      float* log_sum_exp);
/// Clears gradients: zeros for the query of each row that sees nothing, and for the key and
/// value of each row that is not seen. dqkv (B, T, heads + 2 kv_heads, head_dim), bf16.
void clear_blind_gradients(const AttentionMask& mask, const DocumentPlaces& places,
                           const DocumentTables& tables, int64_t heads, Tensor dqkv);

}  // namespace tessera::cuda
