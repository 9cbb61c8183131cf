#pragma once

#include "core/cuda/async_copies.h"
#include "core/cuda/dynamic_shared.h"
#include "core/cuda/launch.h"
#include "core/cuda/runtime.h"
#include "core/ops/cuda/attention/attention_fma.h"
#include "core/ops/cuda/attention/attention_mma.h"
#include "core/ops/cuda/attention/attention_wgmma.h"

/// Code that attention kernels share besides masks and products. E is a kind of tiles: WgmmaTiles,
/// MmaTiles or FmaTiles.
namespace tessera::cuda {

inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

/// 2ˣ with a relative error of about 2⁻²²; 0 for −inf and where the result is denormal.
__device__ inline float fast_exp2(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

/// The sum or maximum over the lanes that share a row.
template <typename E>
__device__ float sum_of_row(float x) {
  for (int step = 1; step < E::kRowLanes; step *= 2) x += __shfl_xor_sync(kWholeWarp, x, step);
  return x;
}
template <typename E>
__device__ float max_of_row(float x) {
  for (int step = 1; step < E::kRowLanes; step *= 2) {
    x = fmaxf(x, __shfl_xor_sync(kWholeWarp, x, step));
  }
  return x;
}

/// The rows of one head that a block processes.
template <AttentionForm kForm>
struct BlockPlace {
  static constexpr bool kHasMemory = has_memory(kForm);

  int b, h;
  int first_row;  ///< position in the sequence

  /// Blocks process the tiles of one head before the next, the last tile first if `reversed`: with
  /// a causal mask the most expensive tiles should not start last.
  __device__ BlockPlace(const AttentionArguments& a, int rows, bool reversed)
      : BlockPlace(a.seq, a.heads, rows, reversed) {}

  /// The place of one key-value head; h is the first head of its group.
  __device__ static BlockPlace of_group(const AttentionArguments& a, int rows) {
    BlockPlace place(keys(a), a.kv_heads, rows, false);
    place.h *= a.in_group;
    return place;
  }

  __device__ BlockPlace(int sequence, int head, int row) : b(sequence), h(head), first_row(row) {}

  /// The keys of a sequence, the elements between them, and AttentionRows::kv: without a memory
  /// from what the queries need anyway, which saves registers.
  __device__ static int keys(const AttentionArguments& a) { return kHasMemory ? a.keys : a.seq; }
  __device__ static int64_t kv_stride(const AttentionArguments& a) {
    return kHasMemory ? a.kv_stride : a.q_stride;
  }
  template <typename T>
  __device__ static T* kv_of(const AttentionArguments& a, T* q, T* kv) {
    return kHasMemory ? kv : q + static_cast<int64_t>(a.heads) * a.d;
  }

  /// Offsets from AttentionRows::q and kv, in out, and in log_sum_exp.
  __device__ int64_t of_query(const AttentionArguments& a, int t) const {
    return row(a, t) * a.q_stride + static_cast<int64_t>(h) * a.d;
  }
  __device__ int64_t of_key(const AttentionArguments& a, int s) const {
    return (static_cast<int64_t>(b) * keys(a) + s) * kv_stride(a) +
           static_cast<int64_t>(h / a.in_group) * a.d;
  }
  __device__ int64_t of_value(const AttentionArguments& a, int s) const {
    return of_key(a, s) + static_cast<int64_t>(a.kv_heads) * a.d;
  }
  __device__ int64_t in_out(const AttentionArguments& a, int t) const {
    return row(a, t) * a.out_stride + static_cast<int64_t>(h) * a.d;
  }
  __device__ int64_t in_log_sum_exp(const AttentionArguments& a, int t) const {
    return (static_cast<int64_t>(b) * a.heads + h) * a.seq + t;
  }

 private:
  __device__ BlockPlace(int seq, int heads, int rows, bool reversed) {
    const int tiles = (seq + rows - 1) / rows;
    const int tile = static_cast<int>(blockIdx.x) % tiles;
    const int head = static_cast<int>(blockIdx.x) / tiles;
    b = head / heads;
    h = head % heads;
    first_row = (reversed ? tiles - 1 - tile : tile) * rows;
  }

  __device__ int64_t row(const AttentionArguments& a, int t) const {
    return static_cast<int64_t>(b) * a.seq + t;
  }
};

/// A block for each tile of `rows` queries, or keys, of each of `heads` heads.
template <typename E>
LaunchShape attention_launch(const AttentionArguments& a, int rows, int heads,
                             size_t shared_bytes) {
  const int64_t blocks = ceil_div(rows, E::kRows) * heads * a.batch;
  return {dim3(static_cast<unsigned>(narrow<int>(blocks))), dim3(kAttentionThreads), shared_bytes};
}

/// A pack of a row's elements in the type of an fp32 tile.
template <typename T, int N>
__device__ void store_pack(float* to, const Pack<T, N>& pack) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    Pack<float, 4> four;
#pragma unroll
    for (int j = 0; j < 4; ++j) four.at[j] = to_float(pack.at[i + j]);
    *reinterpret_cast<Pack<float, 4>*>(to + i) = four;
  }
}

/// tile (kTileRows, kDims) = rows [first, first + kTileRows) of a head, with zeros beyond the
/// `length` rows of the sequence and beyond D columns. `source` is the address of row `first`. The
/// tile is ready after a wait for `copies` and a barrier.
template <typename E, int kTileRows>
__device__ void load_tile(const AttentionArguments& a, const typename E::Element* source,
                          int64_t stride, int first, int length, typename E::Stored* tile,
                          AsyncCopies& copies) {
  using T = typename E::Element;
  const int thread = static_cast<int>(threadIdx.x), rows = length - first;
  if (a.aligned) {
    // A thread has the same columns of every kStep-th row, so addresses need one addition each.
    constexpr int kPack = kPackSize<T>, kPacks = E::kDims / kPack,
                  kStep = kAttentionThreads / kPacks;
    static_assert(kAttentionThreads % kPacks == 0 && kTileRows % kStep == 0);
    const int column = thread % kPacks * kPack, end = column < a.d ? min(rows, kTileRows) : 0;
    int row = thread / kPacks;
    const T* from = source + row * stride + column;
    // A multiple of 8 rows further, chunks are swizzled in the same way.
    static_assert(!E::kWholeBlock || kStep % 8 == 0);
    typename E::Stored* to = tile + E::template at<kTileRows>(row, column);
#pragma unroll 4
    for (int i = 0; i < kTileRows / kStep; ++i) {
      const bool within = row < end;
      if constexpr (std::is_same_v<T, typename E::Stored>) {
        copies.start(to, from, within);
      } else {
        Pack<T, kPack> pack{};
        if (within) pack = *reinterpret_cast<const Pack<T, kPack>*>(from);
        store_pack(to, pack);
      }
      row += kStep, from += kStep * stride, to += kStep * E::kStride;
    }
    return;
  }
  for (int i = thread; i < kTileRows * E::kDims; i += kAttentionThreads) {
    const int row = i / E::kDims, column = i % E::kDims;
    const float x = row < rows && column < a.d ? to_float(source[row * stride + column]) : 0.0f;
    E::store(tile + E::template at<kTileRows>(row, column), x);
  }
}

/// A tile of keys and values, if queries are the rows.
template <typename E>
struct KeyColumns {
  TileBits<E::kRows, E::kColumns> bits;
  alignas(E::kAlignment) typename E::Stored keys[E::kColumns * E::kRowSize];
  alignas(E::kAlignment) typename E::Stored values[E::kColumns * E::kRowSize];
};

/// load_tile() from key `first` on of the place's head.
template <typename E, typename Place>
__device__ void load_keys(const AttentionArguments& a, const Place& place,
                          const typename E::Element* kv, int first, KeyColumns<E>& columns,
                          AsyncCopies& copies) {
  load_tile<E, E::kColumns>(a, kv + place.of_key(a, first), Place::kv_stride(a), first,
                            Place::keys(a), columns.keys, copies);
  load_tile<E, E::kColumns>(a, kv + place.of_value(a, first), Place::kv_stride(a), first,
                            Place::keys(a), columns.values, copies);
}

/// Stores rows of a tile, without the zeros.
template <typename E, int kTileRows>
__device__ void store_tile(const AttentionArguments& a, const typename E::Stored* tile,
                           int64_t stride, int first, int length, typename E::Element* target) {
  using T = typename E::Element;
  const int thread = static_cast<int>(threadIdx.x), rows = min(length - first, kTileRows);
  if (a.aligned) {
    constexpr int kPack = kPackSize<T>, kPacks = E::kDims / kPack;
    for (int i = thread; i < rows * kPacks; i += kAttentionThreads) {
      const int row = i / kPacks, column = i % kPacks * kPack;
      if (column >= a.d) continue;
      const typename E::Stored* const from = tile + E::template at<kTileRows>(row, column);
      Pack<T, kPack> pack;
#pragma unroll
      for (int j = 0; j < kPack; ++j) pack.at[j] = from_float<T>(to_float(from[j]));
      *reinterpret_cast<Pack<T, kPack>*>(target + row * stride + column) = pack;
    }
    return;
  }
  for (int i = thread; i < rows * E::kDims; i += kAttentionThreads) {
    const int row = i / E::kDims, column = i % E::kDims;
    if (column >= a.d) continue;
    const float x = to_float(tile[E::template at<kTileRows>(row, column)]);
    target[row * stride + column] = from_float<T>(x);
  }
}

/// tile = sums, each row times its factor.
template <typename E>
__device__ void put_sums(const typename E::Sums& sums, const float (&factors)[E::kMyRows],
                         typename E::Stored* tile) {
#pragma unroll
  for (int i = 0; i < E::kMyRows; ++i) {
#pragma unroll
    for (int j = 0; j < E::kMySums; ++j) {
      E::store(tile + E::template at<E::kRows>(E::row(i), E::sum_column(j)),
               sums.at[i][j] * factors[i]);
    }
  }
}

/// The bit of a thread's row i and column j in a tile.
template <typename E, int kWords>
__device__ bool bit_of(const uint32_t (&words)[kWords], int j) {
  return (words[E::column(j) / 32] >> E::lane_column() >> (E::column(j) % 32) & 1u) != 0;
}

/// Turns products q·k into scores in powers of two: scaled, with the position bias and the
/// additive mask, −inf where hidden. −inf is assigned, not added: a hidden product may be infinite
/// or NaN. If the tile is seen `whole`, the bits are not read.
template <typename E, typename Mask, Rows kOrder>
__device__ void mask_scores(const Mask& mask,
                            const TileMask<kOrder, E::kRows, E::kColumns, Mask::kHasPattern>& rows,
                            const TileBits<E::kRows, E::kColumns>& bits, bool whole, float scale,
                            int first_row, int first_column, typename E::Scores& scores) {
  constexpr bool kBias = Mask::kHasBias;
  const float to_powers = scale * kLog2E;
  if (whole) {
#pragma unroll
    for (int i = 0; i < E::kMyRows; ++i) {
#pragma unroll
      for (int j = 0; j < E::kMyColumns; ++j) {
        float& score = scores.at[i][j];
        if constexpr (kBias) {
          const int row = first_row + E::row(i);
          const int column = first_column + E::lane_column() + E::column(j);
          const int distance = kOrder == Rows::queries ? column - row : row - column;
          score = fmaf(score, to_powers, mask.position_bias(distance) * kLog2E);
        } else {
          score = __fmul_rn(score, to_powers);
        }
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < E::kMyRows; ++i) {
    const auto& words = bits.visible[E::row(i)];
#pragma unroll
    for (int j = 0; j < E::kMyColumns; ++j) {
      float& score = scores.at[i][j];
      const bool seen = bit_of<E>(words, j);
      if ((kBias || mask.adds()) && seen) {
        const int row = first_row + E::row(i);
        const int column = first_column + E::lane_column() + E::column(j);
        const int query = kOrder == Rows::queries ? row : column;
        const int key = kOrder == Rows::queries ? column : row;
        float added;
        if constexpr (kBias) {
          added = mask.position_bias(key - query);
          if (mask.adds()) added += mask.additive(query, key, rows.origin(E::row(i)));
        } else {
          added = mask.additive(query, key, rows.origin(E::row(i)));
        }
        score = fmaf(score, to_powers, added * kLog2E);
      } else {
        // Not fused with what follows: adding a mask of zeros must not change a bit.
        score = seen ? __fmul_rn(score, to_powers) : kMinusInfinity;
      }
    }
  }
}

/// Calls body.operator()<E>() with the tiles of attention's backward or forward pass for tensors of
/// T with heads of d columns: as large as 99 KiB of shared memory and a thread's registers allow.
template <typename T, bool kBackward, typename Body>
void dispatch_warp_tiles(int d, const Body& body) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (d <= 32) return body.template operator()<MmaTiles<32, 64>>();
    if (d <= 64) return body.template operator()<MmaTiles<64, 64>>();
    if (d <= 128) return body.template operator()<MmaTiles<128, kBackward ? 32 : 64>>();
  } else {
    if (d <= 32) return body.template operator()<FmaTiles<T, 32, 64, 64>>();
    if (d <= 64) return body.template operator()<FmaTiles<T, 64, 64, 64>>();
    if (d <= 128) {
      return body.template operator()<FmaTiles<T, 128, kBackward ? 32 : 64, 32>>();
    }
  }
  body.template operator()<FmaTiles<T, 256, kBackward ? 16 : 32, 16>>();
}

/// The same, with wgmma where the GPU and this build have it.
template <typename T, bool kBackward, typename Body>
void dispatch_tiles(int d, const Body& body) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (d <= 128 && has_wgmma()) {
      if (d <= 32) return body.template operator()<WgmmaTiles<32, 64>>();
      if (d <= 64) return body.template operator()<WgmmaTiles<64, 64>>();
      return body.template operator()<WgmmaTiles<128, kBackward ? 32 : 64>>();
    }
  }
  dispatch_warp_tiles<T, kBackward>(d, body);
}

}  // namespace tessera::cuda
