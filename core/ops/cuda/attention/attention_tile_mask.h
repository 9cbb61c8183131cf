#pragma once

#include "core/ops/cuda/attention/attention_head_mask.h"

namespace tessera::cuda {

/// Threads per block of all attention kernels that process tiles.
inline constexpr int kAttentionThreads = 128;
inline constexpr int kAttentionWarps = kAttentionThreads / kWarpSize;

__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ inline int warp_of_thread() { return static_cast<int>(threadIdx.x) / kWarpSize; }

/// Bits [begin, end) of 32.
__device__ inline uint32_t bits_between(int begin, int end) {
  begin = max(begin, 0);
  end = min(end, 32);
  return begin < end ? ~0u >> (32 - (end - begin)) << begin : 0u;
}

/// Whether the rows of a tile are queries or keys; its columns are the others.
enum class Rows : uint8_t { queries, keys };

/// One bit for each row and column of a tile, in shared memory.
template <int kRows, int kColumns>
struct TileBits {
  static constexpr int kWords = (kColumns + 31) / 32;

  uint32_t visible[kRows][kWords];  ///< whether the pair is visible
  uint32_t kept[kRows][kWords];     ///< whether dropout keeps its weight; only with dropout

  /// Whether any pair of the tile is visible; the same for all threads.
  __device__ bool any_visible() const {
    uint32_t some = 0;
    for (int i = lane_of_thread(); i < kRows * kWords; i += kWarpSize) {
      some |= visible[i / kWords][i % kWords];
    }
    return __any_sync(kWholeWarp, some != 0) != 0;
  }
};

/// The columns that the rows of a tile may see, by arithmetic.
struct SeenColumns {
  Positions any;  ///< contains all columns that any row sees
  Positions all;  ///< columns that all rows see

  /// Whether every row sees all columns of [first, end).
  __device__ bool whole(int first, int end) const { return all.begin <= first && end <= all.end; }
  /// Whether a row may see one of them.
  __device__ bool overlaps(int first, int end) const { return first < any.end && any.begin < end; }
};

/// The remainder of a distance of any sign.
__device__ inline int remainder_of(int distance, int step) {
  return (distance % step + step) % step;
}

/// SeenColumns for a mask with a pattern. `any` may include columns that no row sees.
struct PatternSeenColumns : SeenColumns {
  Positions dilated, dense;  ///< contain all columns that any row sees of PatternColumns's parts
  Positions rows;            ///< of the tile
  int dilation;

  __device__ bool overlaps(int first, int end) const {
    if (first < dense.end && dense.begin < end) return true;
    // Whether a distance between the rows and these columns is a multiple of the dilation.
    const int farthest = rows.end - 1 - first, nearest = rows.begin - end + 1;
    const int above = remainder_of(farthest, dilation);
    return first < dilated.end && dilated.begin < end && farthest - above >= nearest;
  }
};

/// Whether a range has one of the columns [first, end).
__device__ inline bool has_column(const Positions& of, int first, int end) {
  return max(of.begin, first) < min(of.end, end);
}

/// SeenColumns for AttentionForm::runs. Between the runs and documents of a tile's rows are columns
/// that no row sees, so every row is asked: row(i) of a lane, for i < count.
template <Rows kOrder, typename Mask, typename Row>
struct RunSeenColumns : SeenColumns {
  const Mask& mask;
  const PatternColumns* columns;  ///< of the tile's rows
  int first_row, count;
  Row row;

  /// Returns the same to all lanes of a warp, which must call it together.
  __device__ bool overlaps(int first, int end) const {
    if (whole(first, end)) return true;
    bool sees = false;
    for (int i = 0; i < count; ++i) sees = sees || sees_any(row(i), first, end);
    return __any_sync(kWholeWarp, sees ? 1 : 0) != 0;
  }

 private:
  __device__ bool sees_any(int r, int first, int end) const {
    const PatternColumns& of = columns[r];
    if (has_column(of.all, first, end)) return true;
    if (!has_column(of.dilated, first, end)) return false;
    if (kOrder == Rows::keys || mask.dilation() == 1) return true;
    const int from = max(first, of.dilated.begin);
    const int place = mask.place_of(first_row + r, of.origin);
    return from + remainder_of(place - from, mask.dilation()) < min(end, of.dilated.end);
  }
};

inline constexpr int kFarPosition = 0x7fffffff;

/// Bits i of 32 for which first + i is a multiple of `step` apart from `row`.
__device__ inline uint32_t bits_apart(int row, int first, int step) {
  uint32_t bits = 0;
  for (int i = remainder_of(row - first, step); i < 32; i += step) bits |= 1u << i;
  return bits;
}

/// The columns that the rows of a warp's lanes see. `columns_of(i)` is the range that row i of this
/// lane's `rows` rows sees.
template <typename Columns>
__device__ SeenColumns seen_by_warp(int rows, const Columns& columns_of) {
  SeenColumns seen{{kFarPosition, 0}, {0, kFarPosition}};
  for (int i = 0; i < rows; ++i) {
    const Positions of = columns_of(i);
    seen.all = {max(seen.all.begin, of.begin), min(seen.all.end, of.end)};
    if (of.begin < of.end) {
      seen.any = {min(seen.any.begin, of.begin), max(seen.any.end, of.end)};
    }
  }
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    seen.any.begin = min(seen.any.begin, __shfl_xor_sync(kWholeWarp, seen.any.begin, step));
    seen.any.end = max(seen.any.end, __shfl_xor_sync(kWholeWarp, seen.any.end, step));
    seen.all.begin = max(seen.all.begin, __shfl_xor_sync(kWholeWarp, seen.all.begin, step));
    seen.all.end = min(seen.all.end, __shfl_xor_sync(kWholeWarp, seen.all.end, step));
  }
  return seen;
}

/// The widest range over the lanes of a warp.
__device__ inline Positions union_of_lanes(Positions of) {
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    of.begin = min(of.begin, __shfl_xor_sync(kWholeWarp, of.begin, step));
    of.end = max(of.end, __shfl_xor_sync(kWholeWarp, of.end, step));
  }
  return of;
}

/// The columns that the rows of a tile see by arithmetic, in shared memory.
template <Rows kOrder, int kRows, bool kHasPattern>
struct TileRows {
  int first[kRows], last[kRows];  ///< the columns that a row may see

  /// Returns the same to all threads; contains barriers.
  template <typename Mask>
  __device__ SeenColumns begin(const Mask& mask, int first_row) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kRows) {
      const Positions seen = kOrder == Rows::queries ? mask.keys_of(first_row + thread)
                                                     : mask.queries_of(first_row + thread);
      first[thread] = seen.begin;
      last[thread] = seen.end;
    }
    __syncthreads();
    constexpr int kRowsOfLane = ceil_div(kRows, kWarpSize);
    return seen_by_warp(kRowsOfLane, [&](int i) {
      const int row = min(lane_of_thread() + kWarpSize * i, kRows - 1);
      return Positions{first[row], last[row]};
    });
  }

  /// Columns seen by the warp's rows, row(i) for i < count, in a tile whose rows see `all_rows`.
  template <typename Row>
  __device__ SeenColumns of_warp(const SeenColumns& /*all_rows*/, int count, const Row& row) const {
    return seen_by_warp(count, [&](int i) { return Positions{first[row(i)], last[row(i)]}; });
  }

  /// Bits of the columns from `column` on that a row may see.
  template <typename Mask>
  __device__ uint32_t bits(const Mask& /*mask*/, int /*first_row*/, int row, int column) const {
    return bits_between(first[row] - column, last[row] - column);
  }

  /// PatternColumns::origin of a row.
  __device__ static int origin(int /*row*/) { return 0; }
};

template <Rows kOrder, int kRows>
struct TileRows<kOrder, kRows, true> {
  PatternColumns columns[kRows];

  /// Returns the same to all threads; contains barriers.
  template <typename Mask>
  __device__ auto begin(const Mask& mask, int first_row) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kRows) {
      columns[thread] = kOrder == Rows::queries ? mask.pattern_keys_of(first_row + thread)
                                                : mask.pattern_queries_of(first_row + thread);
    }
    __syncthreads();
    constexpr Positions kNone{kFarPosition, 0};
    Positions dilated = kNone, dense = kNone, all{0, kFarPosition};
    const auto add = [](Positions& to, const Positions& of) {
      if (of.begin < of.end) to = {min(to.begin, of.begin), max(to.end, of.end)};
    };
    for (int row = lane_of_thread(); row < kRows; row += kWarpSize) {
      const PatternColumns& of = columns[row];
      add(dilated, of.dilated);
      add(dense, of.all);
      // The longer of what a row sees without gaps.
      const Positions window = mask.dilation() == 1 ? of.dilated : Positions{0, 0};
      const bool is_longer = window.end - window.begin > of.all.end - of.all.begin;
      all = {max(all.begin, is_longer ? window.begin : of.all.begin),
             min(all.end, is_longer ? window.end : of.all.end)};
    }
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      all.begin = max(all.begin, __shfl_xor_sync(kWholeWarp, all.begin, step));
      all.end = min(all.end, __shfl_xor_sync(kWholeWarp, all.end, step));
    }
    PatternSeenColumns seen;
    seen.dilated = union_of_lanes(dilated);
    seen.dense = union_of_lanes(dense);
    seen.any = {min(seen.dilated.begin, seen.dense.begin), max(seen.dilated.end, seen.dense.end)};
    // A fully visible tile adds nothing to the scores.
    seen.all = mask.adds() ? Positions{0, 0} : all;
    if constexpr (Mask::kHasRuns) {
      const auto row_of_lane = [](int i) {
        return min(lane_of_thread() + kWarpSize * i, kRows - 1);
      };
      return RunSeenColumns<kOrder, Mask, decltype(row_of_lane)>{
          {seen}, mask, columns, first_row, ceil_div(kRows, kWarpSize), row_of_lane};
    } else {
      seen.rows = {first_row, first_row + kRows};
      seen.dilation = mask.dilation();
      return seen;
    }
  }

  template <typename Row>
  __device__ static const PatternSeenColumns& of_warp(const PatternSeenColumns& all_rows,
                                                      int /*count*/, const Row& /*row*/) {
    return all_rows;
  }
  template <typename Mask, typename AllRows, typename Row>
  __device__ static auto of_warp(const RunSeenColumns<kOrder, Mask, AllRows>& all_rows, int count,
                                 const Row& row) {
    return RunSeenColumns<kOrder, Mask, Row>{{all_rows},         all_rows.mask, all_rows.columns,
                                             all_rows.first_row, count,         row};
  }

  template <typename Mask>
  __device__ uint32_t bits(const Mask& mask, int first_row, int row, int column) const {
    const PatternColumns& of = columns[row];
    uint32_t dilated = bits_between(of.dilated.begin - column, of.dilated.end - column);
    if (dilated != 0 && mask.dilation() > 1) {
      dilated &= bits_of_places(mask, first_row + row, of.origin, column, dilated);
    }
    return dilated | bits_between(of.all.begin - column, of.all.end - column);
  }

  __device__ int origin(int row) const { return row < kRows ? columns[row].origin : 0; }

 private:
  /// Bits of the columns from `column` on whose places are a multiple of the dilation apart from
  /// that of `row`. Those of columns that are not among `bits` may be anything.
  template <typename Mask>
  __device__ static uint32_t bits_of_places(const Mask& mask, int row, int origin, int column,
                                            uint32_t bits) {
    if constexpr (!Mask::kHasRuns || kOrder == Rows::queries) {
      return bits_apart(mask.place_of(row, origin), column, mask.dilation());
    } else {
      uint32_t apart = 0;
      for (int i = 0; i < 32; ++i) {
        if ((bits >> i & 1u) == 0) continue;
        const int distance = mask.place_of(column + i, origin) - row;
        apart |= (distance % mask.dilation() == 0 ? 1u : 0u) << i;
      }
      return apart;
    }
  }
};

/// The mask of a block's rows, in shared memory; kept from tile to tile of columns. Mask is a
/// HeadMask.
template <Rows kOrder, int kRows, int kColumns, bool kHasPattern>
class TileMask : public TileRows<kOrder, kRows, kHasPattern> {
 public:
  using Bits = TileBits<kRows, kColumns>;

  /// Returns the same to all threads; contains barriers.
  template <typename Mask>
  __device__ auto begin(const Mask& mask, int first_row) {
    const int thread = static_cast<int>(threadIdx.x);
    if (kHasWeights && mask.drops() && thread < kRows) {
      weights_[thread] = mask.weights_of(first_row + thread);
    }
    return TileRows<kOrder, kRows, kHasPattern>::begin(mask, first_row);
  }

  /// Writes tile.visible of the tile whose first column is `first_column`.
  template <typename Mask>
  __device__ void look(const Mask& mask, int first_row, int first_column, Bits& tile) const {
    for_each_word([&](int group, int word) {
      const int row = 32 * group + lane_of_thread();
      const int column = first_column + 32 * word;
      uint32_t word_bits = row < kRows ? this->bits(mask, first_row, row, column) : 0u;
      if (kColumns < 32) word_bits &= (1u << (kColumns % 32)) - 1u;
      if (mask.looks_at_tensors()) word_bits &= shown(mask, first_row, 32 * group, column);
      if (row < kRows) tile.visible[row][word] = word_bits;
    });
  }

  /// Writes bits.kept of that tile: zeros for squares that no row sees, as drawing costs more.
  template <typename Mask>
  __device__ void draw(const Mask& mask, int first_row, int first_column, Bits& bits) const {
    for_each_word([&](int group, int word) {
      const int row = 32 * group + lane_of_thread();
      const int first_of_group = first_row + 32 * group, column = first_column + 32 * word;
      const bool sees = row < kRows && this->bits(mask, first_row, row, column) != 0;
      uint32_t word_bits = 0;
      if (__any_sync(kWholeWarp, sees ? 1 : 0) != 0) {
        if constexpr (kHasWeights) {
          word_bits = kept_keys(mask, weights_[min(row, kRows - 1)], column);
        } else {
          const uint64_t weights = mask.weights_of(column + lane_of_thread());
          word_bits = transposed(kept_keys(mask, weights, first_of_group));
        }
      }
      if (row < kRows) bits.kept[row][word] = word_bits;
    });
  }

 private:
  static constexpr bool kHasWeights = kOrder == Rows::queries;
  uint64_t weights_[kHasWeights ? kRows : 1];  // HeadMask::weights_of() each row

  /// Warps alternate between squares of 32 rows × 32 columns, a lane per row.
  template <typename Body>
  __device__ static void for_each_word(const Body& body) {
    constexpr int kCount = (kRows + 31) / 32 * Bits::kWords;
    for (int i = warp_of_thread(); i < kCount; i += kAttentionWarps) {
      body(i / Bits::kWords, i % Bits::kWords);
    }
  }

  /// The visibility from hidden keys and planes for this lane's row of the square at row `from` of
  /// the tile and this column. Neighboring lanes read neighboring keys.
  template <typename Mask>
  __device__ uint32_t shown(const Mask& mask, int first_row, int from, int column) const {
    const int lane = lane_of_thread(), row = first_row + from;
    uint32_t bits = ~0u;
    if constexpr (kOrder == Rows::queries) {
      const bool key = mask.shows_key(column + lane);
      bits = __ballot_sync(kWholeWarp, key ? 1 : 0);
      if (!mask.looks_at_planes() || bits == 0) return bits;
#pragma unroll 4
      for (int i = 0; i < 32; ++i) {
        const bool pair = key && mask.planes_show(row + i, column + lane, this->origin(from + i));
        const uint32_t of_row = __ballot_sync(kWholeWarp, pair ? 1 : 0);
        if (i == lane) bits = of_row;
      }
    } else {
      if (!mask.shows_key(row + lane)) return 0;
      if (!mask.looks_at_planes()) return bits;
      const int origin = this->origin(from + lane);
#pragma unroll 4
      for (int i = 0; i < 32; ++i) {
        if (!mask.planes_show(column + i, row + lane, origin)) bits &= ~(1u << i);
      }
    }
    return bits;
  }

  /// The 32 keys from `key` on, for this lane's query, whose HeadMask::weights_of() is given.
  template <typename Mask>
  __device__ static uint32_t kept_keys(const Mask& mask, uint64_t weights, int key) {
    return mask.kept(weights + static_cast<uint64_t>(key));
  }

  /// Transposes: bit i of lane j becomes bit j of lane i. Each step swaps blocks off the diagonal.
  __device__ static uint32_t transposed(uint32_t bits) {
    uint32_t low = 0x0000ffffu;  // bits whose number does not contain `step`
#pragma unroll
    for (int step = 16; step > 0; step /= 2, low ^= low << step) {
      const uint32_t other = __shfl_xor_sync(kWholeWarp, bits, step);
      bits = (lane_of_thread() & step) == 0 ? (bits & low) | (other & low) << step
                                            : (bits & ~low) | (other >> step & low);
    }
    return bits;
  }
};

}  // namespace tessera::cuda
