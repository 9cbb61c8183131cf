#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/cpu/attention.h"
#include "core/ops/cpu/attention_mask_tiles.h"
#include "core/ops/cpu/attention_segments.h"
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
  /// what was summed before shrinks. `cols` is a multiple of kTilePadding. Sums go lane by lane, so
  /// that more columns without weight do not change their order.
  float absorb(int64_t r, int64_t cols, float* scores) {
    float row_max = max[r];
#pragma omp simd reduction(max : row_max)
    for (int64_t c = 0; c < cols; ++c) row_max = std::max(row_max, scores[c]);
    // With every key hidden so far, any finite reference makes all weights exp(−inf) = 0.
    const float reference = row_max == kMinusInf ? 0.0f : row_max;
    float lanes[kTilePadding] = {};
    for (int64_t c = 0; c < cols; c += kTilePadding) {
#pragma omp simd
      for (int64_t i = 0; i < kTilePadding; ++i) {
        scores[c + i] = vec::exp(scores[c + i] - reference);
        lanes[i] += scores[c + i];
      }
    }
    float row_sum = 0.0f;
#pragma omp simd reduction(+ : row_sum)
    for (int64_t i = 0; i < kTilePadding; ++i) row_sum += lanes[i];
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

/// One query tile of one head of a segment. Rows are counted from the segment's first.
template <typename T>
class ForwardTile {
 public:
  ForwardTile(const AttentionShape& shape, const AttentionOptions& options, const T* qkv,
              const AttentionWork::Item& item)
      : shape_(shape),
        mask_(shape, options, item.segment, item.head),
        dropout_(options, shape, item.segment.place, item.head),
        k_(qkv + shape.qkv_offset(item.segment.rows.begin, 1, item.head)),
        v_(qkv + shape.qkv_offset(item.segment.rows.begin, 2, item.head)),
        ld_(shape.padded_d),
        queries_{item.tile * kQueryTile,
                 std::min((item.tile + 1) * kQueryTile, item.segment.rows.size())},
        softmax_(queries_.size()) {
    TileScratch& scratch = TileScratch::of_this_thread();
    scratch.begin(kQueryTile * (2 * ld_ + kKeyTile) + kKeyTile * 2 * ld_);
    q_ = scratch.tile(kQueryTile, ld_);
    result_ = scratch.tile(kQueryTile, ld_);
    scores_ = scratch.tile(kQueryTile, kKeyTile);
    keys_t_ = scratch.tile(ld_, kKeyTile);
    values_ = scratch.tile(kKeyTile, ld_);

    const T* q = qkv + shape.qkv_offset(item.segment.rows.begin + queries_.begin, 0, item.head);
    load_tile(q, shape.row_stride, queries_.size(), shape.d, options.scale, q_, ld_);
    std::fill_n(result_, queries_.size() * ld_, 0.0f);
  }

  void run() {
    const Range visible = mask_.visible_keys(queries_);
    // On the grid of all tiles whatever is seen of them, so that a sum's order stays the same.
    for (int64_t begin = visible.begin / kKeyTile * kKeyTile; begin < visible.end;
         begin += kKeyTile) {
      const Range keys{begin, std::min(begin + kKeyTile, visible.end)};
      if (!mask_.hides_all(queries_, keys)) absorb(keys);
    }
  }

  /// out and log_sum_exp are those of the tile's first row.
  void store(T* out, float* log_sum_exp) {
    for (int64_t r = 0; r < queries_.size(); ++r) {
      const float normaliser = softmax_.normaliser(r);
      float* row = result_ + r * ld_;
#pragma omp simd
      for (int64_t i = 0; i < ld_; ++i) row[i] *= normaliser;
      log_sum_exp[r] = softmax_.log_sum_exp(r);
    }
    store_tile(result_, ld_, queries_.size(), shape_.d, out, shape_.out_stride);
  }

  Range queries() const { return queries_; }

 private:
  void absorb(Range keys) {
    const int64_t rows = queries_.size(), cols = round_up(keys.size(), kTilePadding);
    const int64_t from = keys.begin * shape_.row_stride;
    load_transposed(k_ + from, shape_.row_stride, keys.size(), shape_.d, keys_t_, kKeyTile);
    load_tile(v_ + from, shape_.row_stride, keys.size(), shape_.d, 1.0f, values_, ld_);
    tile_gemm(rows, cols, shape_.d, {q_, ld_, 1}, keys_t_, kKeyTile, scores_, kKeyTile, false);
    mask_.apply(queries_, keys, scores_);
    for (int64_t r = 0; r < rows; ++r) {
      float* row = scores_ + r * kKeyTile;
      const float shrink = softmax_.absorb(r, cols, row);
      float* result = result_ + r * ld_;
#pragma omp simd
      for (int64_t i = 0; i < ld_; ++i) result[i] *= shrink;
      if (!dropout_.active()) continue;
      float factors[kKeyTile];
      dropout_.factors(queries_.begin + r, keys.begin, keys.size(), factors);
      for (int64_t c = 0; c < keys.size(); ++c) row[c] *= factors[c];
    }
    tile_gemm(rows, ld_, keys.size(), {scores_, kKeyTile, 1}, values_, ld_, result_, ld_, true);
  }

  const AttentionShape& shape_;
  SegmentMask mask_;
  WeightDropout dropout_;
  const T *k_, *v_;
  int64_t ld_;
  Range queries_;
  RunningSoftmax softmax_;
  float* q_;       // (queries, D), scaled
  float* result_;  // (queries, D)
  float* scores_;  // (queries, keys), then weights
  float* keys_t_;  // (D, keys)
  float* values_;  // (keys, D)
};

}  // namespace

void attention_forward(const Tensor& qkv, const AttentionOptions& options, Tensor out,
                       Tensor log_sum_exp) {
  const AttentionShape shape(qkv);
  const AttentionWork work(shape, options);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const T* from = qkv.data<T>();
    T* to = out.data<T>();
    float* lse = log_sum_exp.data<float>();
    parallel_for_each(work.tiles(), [&](int64_t i) {
      const AttentionWork::Item item = work.tile(i);
      ForwardTile<T> tile(shape, options, from, item);
      tile.run();
      const int64_t row = item.segment.rows.begin + tile.queries().begin;
      tile.store(to + shape.out_offset(row, item.head),
                 lse + shape.log_sum_exp_offset(row, item.head));
    });
  });
}

}  // namespace tessera::cpu
