#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/ops/cuda/cudnn_layouts.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void ragged_kernel(const int32_t* documents, int64_t num_documents, int64_t count,
                              int32_t heads, int32_t head_dim, RaggedDocuments to) {
  for (int64_t i = global_thread(); i <= count; i += global_threads()) {
    const bool empty = i >= num_documents;
    const int32_t first = documents[empty ? num_documents : i];
    to.qkv_offsets[i] = first * 3 * heads * head_dim;
    to.out_offsets[i] = first * heads * head_dim;
    to.statistics_offsets[i] = first * heads;
    if (i < count) to.lengths[i] = empty ? 0 : documents[i + 1] - first;
  }
}

__device__ int64_t place_of(int64_t head, int64_t row, const StatisticsLayout& layout) {
  return row / layout.block * layout.block * layout.heads + head * layout.head_stride +
         row % layout.block * layout.row_stride;
}

__global__ void copy_kernel(const float* from, StatisticsLayout from_layout, float* to,
                            StatisticsLayout to_layout) {
  const int64_t rows = to_layout.rows;
  for (int64_t i = global_thread(); i < to_layout.heads * rows; i += global_threads()) {
    const int64_t head = i / rows, row = i % rows;
    to[place_of(head, row, to_layout)] = from[place_of(head, row, from_layout)];
  }
}

}  // namespace

void describe_ragged_documents(const Tensor& documents, int64_t count, int64_t heads,
                               int64_t head_dim, const RaggedDocuments& to) {
  launch("describe_ragged_documents", one_dimensional(count + 1, kThreads), ragged_kernel,
         documents.data<int32_t>(), documents.numel() - 1, count, narrow<int32_t>(heads),
         narrow<int32_t>(head_dim), to);
}

void copy_statistics(const float* from, const StatisticsLayout& from_layout, float* to,
                     const StatisticsLayout& to_layout) {
  launch("copy_statistics", one_dimensional(to_layout.heads * to_layout.rows, kThreads),
         copy_kernel, from, from_layout, to, to_layout);
}

}  // namespace tessera::cuda
