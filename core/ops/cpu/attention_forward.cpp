#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/cpu/attention.h"
#include "core/ops/cpu/attention_tiles.h"
#include "core/ops/cpu/vector_math.h"
#include "core/parallel_for.h"

namespace tessera::cpu {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

/// The running softmax of the queries of one tile.
struct RunningSoftmax {
  float max[kQueryTile];
  float sum[kQueryTile];

  explicit RunningSoftmax(int64_t rows) {
    std::fill_n(max, rows, kMinusInf);
    std::fill_n(sum, rows, 0.0f);
  }

  /// Turns a row of scores into weights relative to the new maximum and returns the factor by which
  /// what was summed before shrinks.
  float absorb(int64_t r, float* scores) {
    float row_max = max[r];
#pragma omp simd reduction(max : row_max)
    for (int64_t c = 0; c < kKeyTile; ++c) row_max = std::max(row_max, scores[c]);
    // With every key hidden so far, any finite reference makes all weights exp(−inf) = 0.
    const float reference = row_max == kMinusInf ? 0.0f : row_max;
    float row_sum = 0.0f;
#pragma omp simd reduction(+ : row_sum)
    for (int64_t c = 0; c < kKeyTile; ++c) {
      scores[c] = vec::exp(scores[c] - reference);
      row_sum += scores[c];
    }
    const float shrink = max[r] == kMinusInf ? 0.0f : vec::exp(max[r] - reference);
    sum[r] = sum[r] * shrink + row_sum;
    max[r] = row_max;
    return shrink;
  }

  /// 1 / sum, and 0 for a row that saw nothing.
  float normaliser(int64_t r) const { return sum[r] > 0.0f ? 1.0f / sum[r] : 0.0f; }
  float log_sum_exp(int64_t r) const {
    return sum[r] > 0.0f ? max[r] + std::log(sum[r]) : kMinusInf;
  }
};

template <typename T>
void forward_tile(const AttentionShape& shape, const AttentionOptions& options, const T* qkv,
                  int64_t b, int64_t h, Range queries, T* out, float* log_sum_exp) {
  const int64_t ld = shape.padded_d;
  TileScratch& scratch = TileScratch::of_this_thread();
  scratch.begin(kQueryTile * (2 * ld + kKeyTile) + kKeyTile * 2 * ld);
  float* q = scratch.tile(kQueryTile, ld);             // (queries, D), scaled
  float* result = scratch.tile(kQueryTile, ld);        // (queries, D)
  float* scores = scratch.tile(kQueryTile, kKeyTile);  // (queries, keys), then weights
  float* keys_t = scratch.tile(ld, kKeyTile);          // (D, keys)
  float* values = scratch.tile(kKeyTile, ld);          // (keys, D)

  const int64_t rows = queries.size();
  const T* q_rows = qkv + shape.qkv_offset(b, 0, h) + queries.begin * shape.row_stride;
  load_tile(q_rows, shape.row_stride, rows, shape.d, options.scale, q, ld);
  std::fill_n(result, rows * ld, 0.0f);
  RunningSoftmax softmax(rows);
  const WeightDropout dropout(options, shape.seq, b, h);

  for (int64_t begin = 0; begin < shape.seq; begin += kKeyTile) {
    const Range keys{begin, std::min(begin + kKeyTile, shape.seq)};
    if (cover(options.mask, queries, keys) == TileCover::all) continue;
    const int64_t from = keys.begin * shape.row_stride;
    load_transposed(qkv + shape.qkv_offset(b, 1, h) + from, shape.row_stride, keys.size(), shape.d,
                    keys_t, kKeyTile);
    load_tile(qkv + shape.qkv_offset(b, 2, h) + from, shape.row_stride, keys.size(), shape.d, 1.0f,
              values, ld);
    tile_gemm(rows, kKeyTile, shape.d, {q, ld, 1}, keys_t, kKeyTile, scores, kKeyTile, false);
    hide_masked(options.mask, queries, keys, scores);
    for (int64_t r = 0; r < rows; ++r) {
      float* row = scores + r * kKeyTile;
      const float shrink = softmax.absorb(r, row);
      float* result_row = result + r * ld;
#pragma omp simd
      for (int64_t i = 0; i < ld; ++i) result_row[i] *= shrink;
      if (!dropout.active()) continue;
      float factors[kKeyTile];
      dropout.factors(queries.begin + r, keys.begin, keys.size(), factors);
      for (int64_t c = 0; c < keys.size(); ++c) row[c] *= factors[c];
    }
    tile_gemm(rows, ld, keys.size(), {scores, kKeyTile, 1}, values, ld, result, ld, true);
  }

  for (int64_t r = 0; r < rows; ++r) {
    const float normaliser = softmax.normaliser(r);
    float* row = result + r * ld;
#pragma omp simd
    for (int64_t i = 0; i < ld; ++i) row[i] *= normaliser;
    log_sum_exp[(b * shape.heads + h) * shape.seq + queries.begin + r] = softmax.log_sum_exp(r);
  }
  store_tile(result, ld, rows, shape.d,
             out + shape.out_offset(b, h) + queries.begin * shape.out_stride, shape.out_stride);
}

}  // namespace

void attention_forward(const Tensor& qkv, const AttentionOptions& options, Tensor out,
                       Tensor log_sum_exp) {
  const AttentionShape shape(qkv);
  const int64_t tiles = ceil_div(shape.seq, kQueryTile);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const T* from = qkv.data<T>();
    T* to = out.data<T>();
    float* lse = log_sum_exp.data<float>();
    parallel_for(shape.batch * shape.heads * tiles, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t begin = i % tiles * kQueryTile;
        const int64_t bh = i / tiles;
        forward_tile(shape, options, from, bh / shape.heads, bh % shape.heads,
                     {begin, std::min(begin + kQueryTile, shape.seq)}, to, lse);
      }
    });
  });
}

}  // namespace tessera::cpu
