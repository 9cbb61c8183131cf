#pragma once

#include <cstdint>

#include "core/tensor.h"

/// What stands between our tensors and those that cuDNN's attention wants.
namespace tessera::cuda {

/// Where documents lie, as cuDNN wants to be told: of `count` of them, which may be more than there
/// are; the others are empty and at the end.
struct RaggedDocuments {
  int32_t* lengths;  ///< (count)
  // (count + 1) each: of a document's first row, the element in qkv, out and statistics.
  int32_t* qkv_offsets;
  int32_t* out_offsets;
  int32_t* statistics_offsets;
};

/// Writes `to` from documents (S + 1), S ≤ count, whose rows have `heads` × `head_dim` features in
/// out and three times as many in qkv.
void describe_ragged_documents(const Tensor& documents, int64_t count, int64_t heads,
                               int64_t head_dim, const RaggedDocuments& to);

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

/// Copies fp32 numbers of the same heads and rows from one layout to another.
void copy_statistics(const float* from, const StatisticsLayout& from_layout, float* to,
                     const StatisticsLayout& to_layout);

}  // namespace tessera::cuda
