#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/checked.h"
#include "core/range.h"
#include "core/threads/parallel_for.h"

namespace tessera::cpu {

/// Elements that make a piece of work worth a thread: some 10 µs of memory traffic.
inline constexpr int64_t kGrain = 32768;

/// How many items of `size` elements make such a piece.
inline int64_t grain_for(int64_t size) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(size, 1));
}

/// Sums over rows whose order does not depend on the number of threads: rows are cut into at most
/// 64 blocks, whose size follows from the number of rows alone; each block has partial sums of its
/// own, and these are added up in the order of the blocks.
class RowBlocks {
 public:
  /// `sums` floats a block.
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
  /// The block's own sums, not initialised.
  float* partial(int64_t block) const { return partials_ + block * stride_; }

  /// out[i] += Σ_blocks partial(block)[first + i] for i < n.
  void add_up(int64_t first, int64_t n, float* out) const {
    parallel_for(n, round_up(grain_for(count()), 16), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kTile) {
        add_up_tile(first + i, std::min(kTile, end - i), out + i);
      }
    });
  }

 private:
  static constexpr int64_t kMaxBlocks = 64;
  static constexpr int64_t kMinRows = 32;
  static constexpr int64_t kTile = 256;

  void add_up_tile(int64_t first, int64_t n, float* out) const {
    float total[kTile] = {};
    for (int64_t block = 0; block < count(); ++block) {
      const float* sums = partial(block) + first;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) total[i] += sums[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] += total[i];
  }

  /// Belongs to the calling thread and only grows, so that a step allocates nothing but once.
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
