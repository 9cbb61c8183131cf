#pragma once

#include <cstdint>
#include <limits>

#include "core/masks/attention_mask.h"
#include "core/tensor.h"

/// What stands between our tensors and those that cuDNN's attention wants.
namespace tessera::cuda {

/// The documents of a batch: `count` of them in rows b × seq_length + t, as `mask` says, each of
/// `length` rows, or of at most `length` if mask.documents says which.
struct DocumentPlaces {
  int64_t count, length, seq_length;
  bool ragged;
};

/// What cuDNN wants to be told of documents in each of some calls. They may be more than there are;
/// the others are empty and at the end.
struct DocumentTables {
  int64_t documents;  ///< in a call
  // Of a document's rows, how many of the first see a key, and are one that is seen. The others see
  // nothing, or are hidden by mask.lengths.
  int32_t* query_lengths;
  int32_t* key_lengths;
  // If ragged: of a document's first row, the element in qkv, out and statistics. A call has one
  // more, where its last document ends.
  int32_t* qkv_offsets;
  int32_t* out_offsets;
  int32_t* statistics_offsets;

  /// Elements of each table from one call to the next: cuDNN may take what it is given to be
  /// aligned to 16 bytes.
  constexpr int64_t stride() const { return (documents + 1 + 3) / 4 * 4; }
  constexpr int64_t place_of(int64_t document) const {
    return document / documents * stride() + document % documents;
  }
};

/// Writes `tables` (calls × stride each) from the mask's documents, lengths and window. Rows have
/// `heads` × `head_dim` features in out and three times as many in qkv.
void describe_documents(const AttentionMask& mask, const DocumentPlaces& places, int64_t calls,
                        int64_t heads, int64_t head_dim, const DocumentTables& tables);

/// How a number for each head h and row n lies: at n / block × block × heads + h × head_stride +
/// n % block × row_stride.
struct StatisticsLayout {
  int64_t heads, rows;
  int64_t block, head_stride, row_stride;

  bool operator==(const StatisticsLayout&) const = default;
};

/// (rows / length, heads, length); log_sum_exp is so, by sequence.
inline StatisticsLayout statistics_in_blocks(int64_t heads, int64_t rows, int64_t length) {
  return {heads, rows, length, length, 1};
}
/// (rows, heads).
inline StatisticsLayout statistics_in_rows(int64_t heads, int64_t rows) {
  return {heads, rows, rows, 1, heads};
}

/// Copies fp32 numbers of the same heads and rows from one layout to another; what is −∞, of a row
/// that sees nothing, becomes `of_nothing`.
void copy_statistics(const float* from, const StatisticsLayout& from_layout, float* to,
                     const StatisticsLayout& to_layout,
                     float of_nothing = -std::numeric_limits<float>::infinity());

/// What attention gives where cuDNN was told of no query or key, and may have written anything or
/// nothing: zeros in out (rows, heads, head_dim), bf16, and −∞ in log_sum_exp, which lies as
/// `layout`.
void clear_blind_rows(const AttentionMask& mask, const DocumentPlaces& places,
                      const DocumentTables& tables, const StatisticsLayout& layout, Tensor out,
                      float* log_sum_exp);
/// The same of its gradients: zeros for the query of each row that sees nothing, and for the key
/// and value of each that is not seen. dqkv (rows, 3, heads, head_dim), bf16.
void clear_blind_gradients(const AttentionMask& mask, const DocumentPlaces& places,
                           const DocumentTables& tables, Tensor dqkv);

}  // namespace tessera::cuda
