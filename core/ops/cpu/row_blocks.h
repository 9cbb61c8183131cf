#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/accumulate.h"
#include "core/checked.h"
#include "core/range.h"
#include "core/threads/parallel_for.h"

namespace tessera::cpu {

/// The number of elements that are worth a thread: some 10 µs of memory traffic.
inline constexpr int64_t kGrain = 32768;

/// The number of items of `size` elements that are worth a thread.
inline int64_t grain_for(int64_t size) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(size, 1));
}

/// Sums over rows in an order that does not depend on the number of threads. Rows are divided into
/// at most 64 blocks, whose size depends only on the number of rows. Each block has partial sums,
/// and these are added in the order of the blocks.
class RowBlocks {
 public:
  /// Each block has `sums` floats.
  RowBlocks(int64_t rows, int64_t sums)
      : rows_(rows),
        rows_per_block_(std::max(kMinRows, ceil_div(rows, kMaxBlocks))),
        stride_(round_up(sums, 16)) {
    std::vector<float>& scratch = thread_scratch();
    const auto size = static_cast<size_t>(count() * stride_);
    if (scratch.size() < size) scratch.resize(size);
    partials_ = scratch.data();
  }

  int64_t count() const { return ceil_div(rows_, rows_per_block_); }
  int64_t rows_per_block() const { return rows_per_block_; }
  Range rows(int64_t block) const {
    return {block * rows_per_block_, std::min(rows_, (block + 1) * rows_per_block_)};
  }
  /// The partial sums of a block, uninitialized.
  float* partial(int64_t block) const { return partials_ + block * stride_; }

  /// out[i] += Σ_blocks partial(block)[first + i] for i < n, or out[i] = that sum.
  void add_up(int64_t first, int64_t n, Accumulate accumulate, float* out) const {
    parallel_for(n, round_up(grain_for(count()), 16), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kTile) {
        add_up_tile(first + i, std::min(kTile, end - i), accumulate, out + i);
      }
    });
  }

 private:
  static constexpr int64_t kMaxBlocks = 64;
  static constexpr int64_t kMinRows = 32;
  static constexpr int64_t kTile = 256;

  void add_up_tile(int64_t first, int64_t n, Accumulate accumulate, float* out) const {
    float total[kTile] = {};
    for (int64_t block = 0; block < count(); ++block) {
      const float* sums = partial(block) + first;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) total[i] += sums[i];
    }
    if (accumulate == Accumulate::no) {
      std::copy_n(total, n, out);
      return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] += total[i];
  }

  /// Belongs to the calling thread and only grows, so steps do not allocate.
  static std::vector<float>& thread_scratch() {
    thread_local std::vector<float> scratch;
    return scratch;
  }

  int64_t rows_;
  int64_t rows_per_block_;
  int64_t stride_;
  float* partials_;
};

}  // namespace tessera::cpu
