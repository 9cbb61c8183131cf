#include <algorithm>
#include <cmath>

#include "core/ops/cpu/attention/attention_mask_tiles.h"
#include "core/ops/cpu/attention/attention_segments.h"
#include "core/ops/cpu/attention/attention_tiles.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"
#include "core/threads/parallel_for.h"

namespace tessera::cpu {
namespace {

/// The running softmax of the queries of one tile.
struct RunningSoftmax {
  float max[kQueryTile];
  float sum[kQueryTile];

  explicit RunningSoftmax(int64_t rows) {
    std::fill_n(max, rows, kMinusInfinity);
    std::fill_n(sum, rows, 0.0f);
  }

  /// Turns a row of scores into weights relative to the new maximum and returns the factor that
  /// rescales the earlier sums. `cols` is a multiple of kTilePadding. Sums go lane by lane, so more
  /// columns without weight do not change their order.
  float absorb(int64_t r, int64_t cols, float* scores) {
    static_assert(kTilePadding == 16);
    float lanes[kTilePadding];
    std::fill_n(lanes, kTilePadding, max[r]);
    for (int64_t c = 0; c < cols; c += kTilePadding) {
#pragma omp simd
      for (int64_t i = 0; i < kTilePadding; ++i) {
        lanes[i] = scores[c + i] > lanes[i] ? scores[c + i] : lanes[i];
      }
    }
    const float row_max = vec::fold16(lanes, [](float a, float b) { return b > a ? b : a; });
    // If every key so far is hidden, any finite reference makes all weights exp(−inf) = 0.
    const float reference = row_max == kMinusInfinity ? 0.0f : row_max;
    std::fill_n(lanes, kTilePadding, 0.0f);
    for (int64_t c = 0; c < cols; c += kTilePadding) {
#pragma omp simd
      for (int64_t i = 0; i < kTilePadding; ++i) {
        scores[c + i] = vec::exp_below(scores[c + i] - reference);
        lanes[i] += scores[c + i];
      }
    }
    const float row_sum = vec::fold16(lanes, [](float a, float b) { return a + b; });
    const float shrink = max[r] == kMinusInfinity ? 0.0f : vec::exp_below(max[r] - reference);
    sum[r] = sum[r] * shrink + row_sum;
    max[r] = row_max;
    return shrink;
  }

  /// 1 / sum, or 0 for a fully masked row.
  float normaliser(int64_t r) const { return sum[r] > 0.0f ? 1.0f / sum[r] : 0.0f; }
  float log_sum_exp(int64_t r) const {
    return sum[r] > 0.0f ? max[r] + std::log(sum[r]) : kMinusInfinity;
  }
};

/// One query tile of one head of a segment. Rows are counted from the segment's first.
template <typename T, typename Element>
class ForwardTile {
  using Products = TileProducts<Element>;

 public:
  ForwardTile(const AttentionShape& shape, const AttentionOptions& options,
              const AttentionRows<const T>& from, const AttentionWork::Item& item)
      : shape_(shape),
        mask_(shape, options, item.segment, item.head),
        dropout_(options, shape, item.segment.place, item.segment.key_place, item.head),
        k_(from.kv + shape.key_offset(item.segment.keys.begin, item.head)),
        v_(from.kv + shape.value_offset(item.segment.keys.begin, item.head)),
        ld_(Products::padded(shape.d)),
        scale_(options.scale),
        queries_{item.tile * kQueryTile,
                 std::min((item.tile + 1) * kQueryTile, item.segment.rows.size())},
        positions_(item.segment.positions(queries_)),
        softmax_(queries_.size()) {
    TileScratch& scratch = TileScratch::of_this_thread();
    scratch.begin(TileScratch::floats<Element>(kQueryTile, ld_) +
                  TileScratch::floats<float>(kQueryTile, ld_ + kKeyTile) +
                  2 * TileScratch::floats<Element>(kKeyTile, ld_) +
                  TileScratch::floats<Element>(kQueryTile, kKeyTile));
    q_ = scratch.tile<Element>(kQueryTile, ld_);
    result_ = scratch.tile(kQueryTile, ld_);
    scores_ = scratch.tile(kQueryTile, kKeyTile);
    keys_t_ = scratch.tile<Element>(ld_, kKeyTile);
    values_ = scratch.tile<Element>(kKeyTile, ld_);
    weights_ = scratch.tile<Element>(kQueryTile, kKeyTile);

    const T* q = from.q + shape.query_offset(item.segment.rows.begin + queries_.begin, item.head);
    Products::load_left(q, shape.q_stride, queries_.size(), shape.d, q_, ld_);
    std::fill_n(result_, queries_.size() * ld_, 0.0f);
  }

  void run() {
    const Range visible = mask_.visible_keys(positions_);
    // Tiles are on the segment's grid, whatever is visible in them, so the order of a sum is fixed.
    for (int64_t begin = visible.begin / kKeyTile * kKeyTile; begin < visible.end;
         begin += kKeyTile) {
      const Range keys{begin, std::min(begin + kKeyTile, visible.end)};
      if (!mask_.hides_all(positions_, keys)) absorb(keys);
    }
  }

  /// `out` and `log_sum_exp` point to the tile's first row.
  void store(T* out, float* log_sum_exp) {
    for (int64_t r = 0; r < queries_.size(); ++r) {
      const float normaliser = softmax_.normaliser(r);
      float* row = result_ + r * ld_;
#pragma omp simd
      for (int64_t i = 0; i < ld_; ++i) row[i] *= normaliser;
      log_sum_exp[r] = softmax_.log_sum_exp(r);
    }
    Products::store(result_, ld_, queries_.size(), shape_.d, 1.0f, out, shape_.out_stride);
  }

  Range queries() const { return queries_; }

 private:
  void absorb(Range keys) {
    const int64_t rows = queries_.size(), cols = round_up(keys.size(), kTilePadding);
    const int64_t from = keys.begin * shape_.kv_stride;
    Products::load_right_transposed(k_ + from, shape_.kv_stride, keys.size(), shape_.d, keys_t_,
                                    kKeyTile);
    Products::load_right(v_ + from, shape_.kv_stride, keys.size(), shape_.d, values_, ld_);
    Products::multiply(rows, cols, shape_.d, Products::left(q_, ld_), keys_t_, kKeyTile, scores_,
                       kKeyTile, false);
    scale_tile(scores_, kKeyTile, rows, cols, scale_);
    mask_.apply(positions_, keys, scores_);
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
    const Element* weights = Products::as_left(scores_, rows, cols, kKeyTile, weights_);
    Products::multiply(rows, ld_, keys.size(), Products::left(weights, kKeyTile), values_, ld_,
                       result_, ld_, true);
  }

  const AttentionShape& shape_;
  SegmentMask mask_;
  TileDropout dropout_;
  const T *k_, *v_;
  int64_t ld_;
  float scale_;
  Range queries_;    // rows, counted from the segment's first
  Range positions_;  // of these, counted like keys
  RunningSoftmax softmax_;
  Element* q_;        // (queries, D)
  float* result_;     // (queries, D)
  float* scores_;     // (queries, keys), then weights
  Element* keys_t_;   // (D, keys)
  Element* values_;   // (keys, D)
  Element* weights_;  // (queries, keys)
};

}  // namespace

void attention_forward(const Tensor& qkv, const AttentionOptions& given, Tensor out,
                       Tensor log_sum_exp) {
  AttentionOptions options = given;
  options.dropout = given.dropout.resolved();
  const AttentionShape shape(qkv, options);
  const AttentionWork work(shape, options);
  dispatch_tiles(qkv.dtype(), [&]<typename T, typename Element>() {
    const AttentionRows<const T> from(shape, qkv, options.memory.key_values);
    T* to = out.data<T>();
    float* lse = log_sum_exp.data<float>();
    parallel_for_each(work.tiles(), [&](int64_t i) {
      const AttentionWork::Item item = work.tile(i);
      [[maybe_unused]] const typename TileProducts<Element>::Scope scope;
      ForwardTile<T, Element> tile(shape, options, from, item);
      tile.run();
      const int64_t row = item.segment.rows.begin + tile.queries().begin;
      tile.store(to + shape.out_offset(row, item.head),
                 lse + shape.log_sum_exp_offset(row, item.head));
    });
  });
}

}  // namespace tessera::cpu
