#include "core/cuda/rows.h"
#include "core/cuda/workspace.h"
#include "core/ops/cuda/embedding/sort_ids.h"
#include "core/ops/cuda/embedding/sorted_search.h"
#include "core/ops/cuda/workspace_sizes.h"
#include "core/ops/device_ops.h"
#include "core/ops/embedding.h"

// The tokens are sorted by the row that they add to, and each row's tokens are divided into pieces
// of kPiece, counted from its first token. So the order of a row's sum depends only on its own
// tokens, and a table of two rows whose gradients all go into one keeps a GPU as busy as one of
// 50,000. A row's first piece adds to the table; further pieces write their sums, which a second
// pass adds to the table.
namespace tessera::cuda {
namespace {

constexpr int kPiece = kEmbeddingPiece;
constexpr int kWindow = 16;  // a block sums the pieces that begin in so many sorted tokens
constexpr int kColumnThreads = 64;
constexpr int kSumLanes = 8;  // threads per row in the second pass

__device__ uint32_t row_of(SortKey key) { return static_cast<uint32_t>(key >> 32); }
__device__ int64_t token_of(SortKey key) { return static_cast<int64_t>(key & 0xffffffffu); }

/// The sums of all pieces but the first of each row. Each such piece begins in a different cell of
/// kPiece sorted tokens, and those of one row begin in consecutive cells.
struct Pieces {
  float* sums;    // (cells, C)
  int32_t* rows;  // (cells): the row, or −1 if no piece begins
};

template <int N>
__device__ void add(const Floats<N>& x, Floats<N>& sum) {
  for (int i = 0; i < N; ++i) sum.at[i] += x.at[i];
}

/// N sums, 16 bytes at a time. They are fp32 where gradients may be bf16, so a pack of gradients
/// needs two accesses.
template <int N>
__device__ Floats<N> load_sums(const float* from) {
  constexpr int kStep = N < 4 ? N : 4;
  Floats<N> sums;
  for (int i = 0; i < N; i += kStep) {
    const Floats<kStep> some = load_floats<kStep>(from + i);
    for (int k = 0; k < kStep; ++k) sums.at[i + k] = some.at[k];
  }
  return sums;
}

template <int N>
__device__ void store_sums(const Floats<N>& sums, float* to) {
  constexpr int kStep = N < 4 ? N : 4;
  for (int i = 0; i < N; i += kStep) {
    Floats<kStep> some;
    for (int k = 0; k < kStep; ++k) some.at[k] = sums.at[i + k];
    store_floats(some, to + i);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kColumnThreads)
    sum_pieces_kernel(const SortKey* sorted, int64_t count, const T* dout, int64_t columns,
                      float* dtable, Pieces pieces) {
  __shared__ SortKey keys[kWindow + kPiece];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWindow;
  for (int i = static_cast<int>(threadIdx.x); i < kWindow + kPiece; i += kColumnThreads) {
    keys[i] = first + i < count ? sorted[first + i] : ~SortKey{0};
  }
  __syncthreads();
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kColumnThreads + threadIdx.x) * N;
  if (column >= columns) return;

  int64_t row_begin = first;
  if (first > 0 && row_of(sorted[first - 1]) == row_of(keys[0])) {
    row_begin = count_below(sorted, first, SortKey{row_of(keys[0])} << 32);
  }
  for (int at = 0; at < kWindow;) {
    const uint32_t row = row_of(keys[at]);
    if (row == kNoRow) return;
    if (at > 0 && row != row_of(keys[at - 1])) row_begin = first + at;
    const int64_t within = first + at - row_begin;
    if (within % kPiece != 0) {
      ++at;  // belongs to a piece of an earlier window
      continue;
    }
    int end = at + 1;
    while (end < at + kPiece && row_of(keys[end]) == row) ++end;

    const int64_t cell = (first + at) / kPiece;
    float* to = within == 0 ? dtable + row * columns : pieces.sums + cell * columns;
    Floats<N> sum{};
    if (within == 0) sum = load_sums<N>(to + column);
#pragma unroll 4
    for (int i = at; i < end; ++i) {
      add(load_floats<N>(dout + token_of(keys[i]) * columns + column), sum);
    }
    store_sums(sum, to + column);
    if (within != 0 && column == 0) pieces.rows[cell] = static_cast<int32_t>(row);
    at = end;
  }
}

/// Adds the pieces of each row whose second piece begins in cell blockIdx.x to the table.
template <int N>
__global__ void __launch_bounds__(kWarpSize* kSumLanes)
    add_pieces_kernel(Pieces pieces, int64_t cells, int64_t columns, float* dtable) {
  const int64_t cell = blockIdx.x;
  const int32_t row = pieces.rows[cell];
  if (row < 0 || (cell > 0 && pieces.rows[cell - 1] == row)) return;
  __shared__ Floats<N> partial[kSumLanes][kWarpSize];
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kWarpSize + threadIdx.x) * N;
  Floats<N> sum{};
  if (column < columns) {
    for (int64_t k = cell + threadIdx.y; k < cells && pieces.rows[k] == row; k += kSumLanes) {
      add(load_sums<N>(pieces.sums + k * columns + column), sum);
    }
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  float* to = dtable + row * columns + column;
  Floats<N> total = load_sums<N>(to);
  for (int lane = 0; lane < kSumLanes; ++lane) add(partial[lane][threadIdx.x], total);
  store_sums(total, to);
}

}  // namespace

void embedding_backward(const Tensor& ids, const Tensor& dout, Range local_rows, Tensor dtable) {
  const int64_t count = ids.numel(), columns = dtable.dim(1);
  if (count == 0 || columns == 0 || local_rows.empty()) return;
  const int64_t cells = ceil_div(count, kPiece);
  const EmbeddingScratch parts(count, columns);
  auto* scratch = static_cast<std::byte*>(workspace(parts.bytes()));
  const Pieces pieces{reinterpret_cast<float*>(scratch),
                      reinterpret_cast<int32_t*>(scratch + parts.sums + parts.keys)};
  auto* keys = reinterpret_cast<SortKey*>(scratch + parts.sums);

  const SortKey* sorted = sort_ids(ids.data<int32_t>(), count, local_rows, keys);
  check(cudaMemsetAsync(pieces.rows, 0xff, parts.rows, stream()), "embedding_backward");
  float* table = dtable.data<float>();
  dispatch_float(dout.dtype(), [&]<typename T>() {
    dispatch_pack<T>(columns, {&dout, &dtable}, [&]<int N>() {
      const LaunchShape shape{dim3(static_cast<unsigned>(ceil_div(count, kWindow)),
                                   static_cast<unsigned>(ceil_div(columns, kColumnThreads * N))),
                              dim3(kColumnThreads)};
      launch("embedding_backward", shape, sum_pieces_kernel<T, N>, sorted, count, dout.data<T>(),
             columns, table, pieces);
    });
  });
  if (cells == 1) return;  // every row has one piece
  dispatch_pack<float>(columns, {&dtable}, [&]<int N>() {
    const LaunchShape shape{
        dim3(static_cast<unsigned>(cells), static_cast<unsigned>(ceil_div(columns, kWarpSize * N))),
        dim3(kWarpSize, kSumLanes)};
    launch("embedding_backward", shape, add_pieces_kernel<N>, pieces, cells, columns, table);
  });
}

}  // namespace tessera::cuda
