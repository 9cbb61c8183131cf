#include <utility>

#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/ops/cuda/embedding/sort_ids.h"
#include "core/ops/cuda/embedding/sorted_search.h"

// A merge sort: a bitonic network sorts tiles in shared memory, then runs are merged eight at a
// time, each key finding its place by binary search.
//
// Why not CUB's radix sort: CUB compiles with nvcc only, and the emulated GPU compiles .cu files as
// C++. Tests without a GPU would then run another sort than a GPU does.
namespace tessera::cuda {
namespace {

constexpr int kTileBits = 10, kTile = 1 << kTileBits;
constexpr int kWayBits = 3, kWays = 1 << kWayBits;

/// One block sorts one tile; two keys per thread.
__global__ void __launch_bounds__(kTile / 2)
    sort_tiles_kernel(const int32_t* ids, int64_t count, Range local_rows, SortKey* out) {
  __shared__ SortKey keys[kTile];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kTile; i += kTile / 2) {
    const int64_t n = first + i;
    SortKey key = ~SortKey{0};  // beyond the end: sorts last
    if (n < count) {
      const bool is_local = local_rows.contains(ids[n]);
      const uint32_t row = is_local ? static_cast<uint32_t>(ids[n] - local_rows.begin) : kNoRow;
      key = SortKey{row} << 32 | static_cast<SortKey>(n);
    }
    keys[i] = key;
  }
  for (int size = 2; size <= kTile; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      const int i = 2 * thread - (thread & (stride - 1));
      const SortKey a = keys[i], b = keys[i + stride];
      const bool ascending = (i & size) == 0;
      if ((a > b) == ascending) {
        keys[i] = b;
        keys[i + stride] = a;
      }
    }
  }
  __syncthreads();
  for (int i = thread; i < kTile; i += kTile / 2) {
    if (first + i < count) out[first + i] = keys[i];
  }
}

/// Merges kWays runs of 2^run_bits sorted keys into one: the position of a key is the number of
/// smaller keys in all of them.
__global__ void merge_runs_kernel(const SortKey* in, int64_t count, int run_bits, SortKey* out) {
  const int64_t run = int64_t{1} << run_bits;
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    const SortKey key = in[i];
    const int64_t mine = i & ~(run - 1), group = i & ~(run * kWays - 1);
    int64_t place = group + i - mine;
    for (int way = 0; way < kWays; ++way) {
      const int64_t other = group + way * run;
      if (other == mine || other >= count) continue;
      place += count_below(in + other, min(run, count - other), key);
    }
    out[place] = key;
  }
}

}  // namespace

const SortKey* sort_ids(const int32_t* ids, int64_t count, Range local_rows, SortKey* scratch) {
  SortKey *in = scratch, *out = scratch + count;
  launch("sort_ids", {dim3(static_cast<unsigned>(ceil_div(count, kTile))), dim3(kTile / 2)},
         sort_tiles_kernel, ids, count, local_rows, in);
  for (int run_bits = kTileBits; int64_t{1} << run_bits < count; run_bits += kWayBits) {
    launch("sort_ids", one_dimensional(count, 256), merge_runs_kernel, in, count, run_bits, out);
    std::swap(in, out);
  }
  return in;
}

}  // namespace tessera::cuda
