#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "core/checked.h"
#include "core/memory.h"
#include "core/ops/attention.h"
#include "core/ops/cpu/matmul/tile_products.h"

namespace tessera::cpu {

/// Queries and keys per tile: five 64 × 64 tiles of fp32 fit into 128 KiB of L2.
inline constexpr int64_t kQueryTile = 64;
inline constexpr int64_t kKeyTile = 64;
static_assert(kKeyTile % kTilePadding == 0 && kQueryTile % kTilePadding == 0);

/// A thread's memory for tiles, kept between calls and grown on demand.
class TileScratch {
 public:
  static TileScratch& of_this_thread() {
    thread_local TileScratch scratch;
    return scratch;
  }

  /// Frees all tiles and reserves `floats` for tiles to come.
  void begin(int64_t floats) {
    if (floats > capacity_) {
      buffer_ = Buffer(static_cast<size_t>(floats) * sizeof(float), kCpu);
      capacity_ = floats;
    }
    used_ = 0;
  }

  template <typename Element = float>
  Element* tile(int64_t rows, int64_t cols) {
    float* tile = static_cast<float*>(buffer_.data()) + used_;
    used_ += floats<Element>(rows, cols);
    require(used_ <= capacity_, "attention: tiles of {} floats exceed the scratch of {}", used_,
            capacity_);
    return reinterpret_cast<Element*>(tile);
  }

  /// The floats that such a tile needs of begin()'s reservation.
  template <typename Element>
  static int64_t floats(int64_t rows, int64_t cols) {
    constexpr int64_t kSize = sizeof(Element);
    return round_up(ceil_div(rows * cols * kSize, int64_t{sizeof(float)}), kTilePadding);
  }

 private:
  Buffer buffer_;
  int64_t capacity_ = 0;
  int64_t used_ = 0;
};

/// tile ×= factor.
inline void scale_tile(float* tile, int64_t ld, int64_t rows, int64_t cols, float factor) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = tile + r * ld;
#pragma omp simd
    for (int64_t i = 0; i < cols; ++i) row[i] *= factor;
  }
}

/// The extents of one call, and the addresses of a head's rows. Queries, and keys with values, have
/// a base address each (AttentionRows), because cross-attention reads them from different tensors.
struct AttentionShape {
  int64_t batch, seq, heads, kv_heads, in_group, d;
  int64_t keys;        ///< of a sequence
  int64_t q_stride;    ///< elements between positions of queries
  int64_t kv_stride;   ///< the same of keys and values
  int64_t out_stride;  ///< elements between positions in out

  AttentionShape(const Tensor& qkv, const AttentionOptions& options)
      : AttentionShape(qkv, options.memory, attention_heads(qkv, options)) {}

  /// The offsets of row b × T + t of a head's query, key and value from their base.
  int64_t query_offset(int64_t row, int64_t h) const { return row * q_stride + h * d; }
  int64_t key_offset(int64_t row, int64_t h) const { return row * kv_stride + h / in_group * d; }
  int64_t value_offset(int64_t row, int64_t h) const { return key_offset(row, h) + kv_heads * d; }
  int64_t out_offset(int64_t row, int64_t h) const { return row * out_stride + h * d; }
  int64_t log_sum_exp_offset(int64_t row, int64_t h) const {
    return seq == 0 ? 0 : (row / seq * heads + h) * seq + row % seq;
  }

 private:
  AttentionShape(const Tensor& qkv, const AttentionMemory& memory, const AttentionHeads& of)
      : batch(qkv.dim(0)),
        seq(qkv.dim(1)),
        heads(of.queries),
        kv_heads(of.key_values),
        in_group(of.in_group()),
        d(qkv.dim(3)),
        keys(memory.defined() ? memory.key_values.dim(1) : seq),
        q_stride(qkv.dim(2) * d),
        kv_stride(memory.defined() ? 2 * kv_heads * d : q_stride),
        out_stride(heads * d) {}
};

/// The base addresses of queries and of keys: in qkv, keys follow the queries of a row.
template <typename T>
struct AttentionRows {
  T *q, *kv;

  AttentionRows(const AttentionShape& shape, const Tensor& qkv, const Tensor& key_values)
      : q(qkv.data<std::remove_const_t<T>>()),
        kv(key_values.defined() ? key_values.data<std::remove_const_t<T>>()
                                : q + shape.heads * shape.d) {}
};

/// Calls body.operator()<T, Element>() with a tensor's dtype T and the element type of its tile
/// products.
template <typename Body>
void dispatch_tiles(DType dtype, Body&& body) {
  dispatch_float(dtype, [&]<typename T>() {
    if constexpr (std::is_same_v<T, bfloat16>) {
      if (bf16_unit() != Bf16Unit::none) return body.template operator()<bfloat16, bfloat16>();
    }
    body.template operator()<T, float>();
  });
}

/// Dropout of the attention weights of one row of a tile. Queries and keys are counted from the
/// first rows of a segment, whose positions in the padded batch are `place` and `key_place`.
class TileDropout {
 public:
  TileDropout(const AttentionOptions& options, const AttentionShape& shape, int64_t place,
              int64_t key_place, int64_t h)
      : dropout_(options.dropout), weights_(weight_dropout(options.dropout)) {
    const auto length_of = [](const PaddedRows& padded, int64_t length) {
      return std::max<int64_t>(padded.index.defined() ? padded.seq_length : length, 1);
    };
    const int64_t seq = length_of(options.padded_rows, shape.seq);
    keys_ = options.memory.defined() ? length_of(options.memory.padded_rows, shape.keys) : seq;
    const int64_t b = place / seq, t = place % seq;
    const int64_t head = (dropout_.first_row + b) * options.total_heads + options.first_head + h;
    corner_ = (head * seq + t) * keys_ + key_place % keys_;
  }

  bool active() const { return dropout_.active(); }

  /// factors[i] = 0 or the scale for the weights of query t and keys [s, s + n).
  void factors(int64_t t, int64_t s, int64_t n, float* factors) const {
    uint8_t bytes[kKeyTile];
    random_bytes(dropout_.key, static_cast<uint64_t>(corner_ + t * keys_ + s), n, bytes);
    const uint32_t threshold = weights_.threshold;
    const float scale = weights_.scale;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) factors[i] = bytes[i] < threshold ? 0.0f : scale;
  }

 private:
  const Dropout& dropout_;
  WeightDropout weights_;
  int64_t keys_;    ///< positions of keys in a padded sequence
  int64_t corner_;  ///< global index of the weight of the segment's first query and key
};

}  // namespace tessera::cpu
