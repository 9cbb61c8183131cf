#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/checked.h"
#include "core/ops/fp8.h"

/// How much scratch memory ops request from cuda::workspace(), for plans of memory. Left out are
/// decoding and the small amounts of sums (core/ops/cuda/reduce.cu), below kCublasLtWorkspaceBytes.
namespace tessera::cuda {

/// Workspace of every product: NVIDIA's recommendation for sm_90, and enough for sm_80.
inline constexpr size_t kCublasLtWorkspaceBytes = size_t{32} << 20;

/// That of linear_fp8 with N features: behind it are results of the last rows, padded.
inline size_t fp8_workspace(int64_t features) {
  return kCublasLtWorkspaceBytes + static_cast<size_t>(kFp8Rows * features) * sizeof(uint16_t);
}

/// The tokens of a piece of embedding_backward's sums.
inline constexpr int kEmbeddingPiece = 64;

/// The parts of embedding_backward's scratch for `count` tokens.
struct EmbeddingScratch {
  size_t sums, keys, rows;

  EmbeddingScratch(int64_t count, int64_t columns) {
    const int64_t cells = ceil_div(count, kEmbeddingPiece);
    sums = static_cast<size_t>(round_up(cells * columns, 4)) * sizeof(float);
    keys = static_cast<size_t>(2 * count) * sizeof(uint64_t);
    rows = static_cast<size_t>(cells) * sizeof(int32_t);
  }
  size_t bytes() const { return sums + keys + rows; }
};

/// delta of our own kernels' attention_backward.
inline size_t attention_backward_scratch(int64_t rows_of_heads) {
  return static_cast<size_t>(rows_of_heads) * sizeof(float);
}

/// The tiles that attention_backward visits for the gradient of the position bias: `columns` keys,
/// from one of `rows` queries on or an offset before or after it. A block has all tiles of a head
/// with one offset, and a sum for each distance in them. With AttentionMemory::positions, a block
/// has the distances of one query and `columns` keys.
struct DiagonalTiles {
  int64_t rows, columns;
  int64_t before, count;  ///< offsets: count times `columns`, from −before × columns on

  /// For the distances −back to `ahead`.
  DiagonalTiles(int64_t tile_rows, int64_t tile_columns, int64_t back, int64_t ahead)
      : rows(tile_rows),
        columns(tile_columns),
        before((back + columns - 1) / columns),
        count(before + (ahead + rows - 1) / columns + 1) {}

  constexpr int64_t distances() const { return rows + columns - 1; }
  size_t bytes(int64_t heads) const {
    return static_cast<size_t>(heads * count * distances()) * sizeof(float);
  }
};

/// The most of all kinds of tiles, for distances below `reach`.
inline size_t position_bias_scratch(int64_t heads, int64_t reach) {
  size_t most = 0;
  constexpr std::pair<int, int> kTiles[] = {{64, 64}, {64, 32}, {32, 32}, {16, 16}, {1, 128}};
  for (const auto& [rows, columns] : kTiles) {
    most = std::max(most, DiagonalTiles(rows, columns, reach - 1, reach - 1).bytes(heads));
  }
  return most;
}

/// The most that layer_norm_backward requests for rows of `columns` on a GPU with so many
/// multiprocessors: two partial sums per column and block.
inline size_t most_norm_scratch(int64_t columns, int64_t multiprocessors) {
  const int64_t unaligned =
      std::clamp<int64_t>(1024 / std::max<int64_t>(ceil_div(columns, 32), 1), 1, 256);
  const int64_t blocks = std::max(4 * multiprocessors, unaligned);
  return static_cast<size_t>(blocks * 2 * columns) * sizeof(float);
}

}  // namespace tessera::cuda
