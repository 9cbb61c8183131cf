#include <algorithm>
#include <limits>
#include <vector>

#include "core/ops/cpu/attention/attention_mask_tiles.h"
#include "core/ops/cpu/attention/attention_segments.h"
#include "core/ops/cpu/attention/attention_tiles.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"
#include "core/threads/parallel_for.h"

namespace tessera::cpu {
namespace {

/// The gradient of one head of a segment; rows are counted from the segment's first. With S = scale
/// × q kᵀ, P = softmax(S), Z the dropout factors and O = (P ∘ Z) v:
///     dv = (P ∘ Z)ᵀ dO,  dP = Z ∘ (dO vᵀ),  dS = P ∘ (dP − rowsum(dO ∘ O)),
///     dq = scale × dS k,  dk = scale × dSᵀ q.
/// dv and dk are summed as dvᵀ = dOᵀ (P ∘ Z) and dkᵀ = qᵀ dS, so no tile is transposed in between.
template <typename T, typename Element>
class HeadBackward {
  using Products = TileProducts<Element>;
  using Scratch = TileScratch;

 public:
  HeadBackward(const AttentionShape& shape, const AttentionOptions& options, const T* qkv,
               const T* out, const T* dout, const float* log_sum_exp, T* dqkv, float* dbias,
               const AttentionWork::Item& item)
      : shape_(shape),
        options_(options),
        mask_(shape, options, item.segment, item.head),
        dropout_(options, shape, item.segment.place, item.head),
        length_(item.segment.rows.size()),
        dbias_(dbias),
        ld_(Products::padded(shape.d)) {
    const int64_t row = item.segment.rows.begin, h = item.head;
    q_ = qkv + shape.qkv_offset(row, 0, h);
    k_ = qkv + shape.qkv_offset(row, 1, h);
    v_ = qkv + shape.qkv_offset(row, 2, h);
    out_ = out + shape.out_offset(row, h);
    dout_ = dout + shape.out_offset(row, h);
    lse_ = log_sum_exp + shape.log_sum_exp_offset(row, h);
    dq_out_ = dqkv + shape.qkv_offset(row, 0, h);
    dk_out_ = dqkv + shape.qkv_offset(row, 1, h);
    dv_out_ = dqkv + shape.qkv_offset(row, 2, h);

    const int64_t rows = round_up(length_, kQueryTile);
    const int64_t transposed = TransposedLeft<Element>::elements(length_, ld_);
    Scratch& scratch = Scratch::of_this_thread();
    scratch.begin(Scratch::floats<float>(rows, ld_ + 1) + 2 * Scratch::floats<Element>(rows, ld_) +
                  2 * Scratch::floats<Element>(transposed, 1) +
                  2 * Scratch::floats<float>(kQueryTile, kKeyTile) +
                  2 * Scratch::floats<Element>(kQueryTile, kKeyTile) +
                  3 * Scratch::floats<Element>(kKeyTile, ld_) +
                  2 * Scratch::floats<float>(ld_, kKeyTile) + kTilePadding);
    dq_ = scratch.tile(rows, ld_);
    delta_ = scratch.tile(rows, 1);
    queries_ = scratch.tile<Element>(rows, ld_);
    douts_ = scratch.tile<Element>(rows, ld_);
    Element* queries_t = scratch.tile<Element>(transposed, 1);
    Element* douts_t = scratch.tile<Element>(transposed, 1);
    weights_ = scratch.tile(kQueryTile, kKeyTile);
    dscores_ = scratch.tile(kQueryTile, kKeyTile);
    left_ = scratch.tile<Element>(kQueryTile, kKeyTile);
    right_ = scratch.tile<Element>(kQueryTile, kKeyTile);
    keys_ = scratch.tile<Element>(kKeyTile, ld_);
    keys_t_ = scratch.tile<Element>(ld_, kKeyTile);
    values_t_ = scratch.tile<Element>(ld_, kKeyTile);
    dk_t_ = scratch.tile(ld_, kKeyTile);
    dv_t_ = scratch.tile(ld_, kKeyTile);

    Products::load_left(q_, shape.row_stride, length_, shape.d, queries_, ld_);
    Products::load_left(dout_, shape.out_stride, length_, shape.d, douts_, ld_);
    queries_t_.load(q_, shape.row_stride, length_, shape.d, queries_, ld_, queries_t);
    douts_t_.load(dout_, shape.out_stride, length_, shape.d, douts_, ld_, douts_t);
  }

  void run() {
    std::fill_n(dq_, length_ * ld_, 0.0f);
    if (dbias_ != nullptr) std::fill_n(dbias_, 2 * length_ - 1, 0.0f);
    sum_dout_times_out();
    for (int64_t begin = 0; begin < length_; begin += kKeyTile) {
      key_tile({begin, std::min(begin + kKeyTile, length_)});
    }
    Products::store(dq_, ld_, length_, shape_.d, options_.scale, dq_out_, shape_.row_stride);
  }

 private:
  void sum_dout_times_out() {
    for (int64_t t = 0; t < length_; ++t) {
      const T* a = dout_ + t * shape_.out_stride;
      const T* b = out_ + t * shape_.out_stride;
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < shape_.d; ++i) {
        sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
      }
      delta_[t] = sum;
    }
  }

  void key_tile(Range keys) {
    const int64_t from = keys.begin * shape_.row_stride;
    bool loaded = false;
    std::fill_n(dk_t_, ld_ * kKeyTile, 0.0f);
    std::fill_n(dv_t_, ld_ * kKeyTile, 0.0f);
    for (int64_t begin = 0; begin < length_; begin += kQueryTile) {
      const Range queries{begin, std::min(begin + kQueryTile, length_)};
      const Range visible = mask_.visible_keys(queries);
      const Range seen{keys.begin, std::min(keys.end, visible.end)};
      if (seen.empty() || visible.begin >= keys.end || mask_.hides_all(queries, seen)) continue;
      if (!loaded) load_keys(keys);
      loaded = true;
      tile(queries, seen);
    }
    Products::store_transposed(dk_t_, kKeyTile, keys.size(), shape_.d, options_.scale,
                               dk_out_ + from, shape_.row_stride);
    Products::store_transposed(dv_t_, kKeyTile, keys.size(), shape_.d, 1.0f, dv_out_ + from,
                               shape_.row_stride);
  }

  void load_keys(Range keys) {
    const int64_t stride = shape_.row_stride, from = keys.begin * stride;
    Products::load_right(k_ + from, stride, keys.size(), shape_.d, keys_, ld_);
    Products::load_right_transposed(k_ + from, stride, keys.size(), shape_.d, keys_t_, kKeyTile);
    Products::load_right_transposed(v_ + from, stride, keys.size(), shape_.d, values_t_, kKeyTile);
  }

  void tile(Range queries, Range keys) {
    const int64_t rows = queries.size(), cols = round_up(keys.size(), kTilePadding);
    const int64_t first = queries.begin * ld_, d = shape_.d;
    Products::multiply(rows, cols, d, Products::left(queries_ + first, ld_), keys_t_, kKeyTile,
                       weights_, kKeyTile, false);
    scale_tile(weights_, kKeyTile, rows, cols, options_.scale);
    mask_.apply(queries, keys, weights_);
    Products::multiply(rows, cols, d, Products::left(douts_ + first, ld_), values_t_, kKeyTile,
                       dscores_, kKeyTile, false);
    for (int64_t r = 0; r < rows; ++r) row_gradient(queries.begin + r, r, keys);
    if (dbias_ != nullptr) add_to_bias(queries, keys);
    const Element* weights = Products::as_right(weights_, rows, cols, kKeyTile, right_);
    Products::multiply(d, cols, rows, douts_t_.from(queries.begin), weights, kKeyTile, dv_t_,
                       kKeyTile, true);
    const Element* dscores = Products::as_right(dscores_, rows, cols, kKeyTile, right_);
    Products::multiply(d, cols, rows, queries_t_.from(queries.begin), dscores, kKeyTile, dk_t_,
                       kKeyTile, true);
    dscores = Products::as_left(dscores_, rows, cols, kKeyTile, left_);
    Products::multiply(rows, ld_, keys.size(), Products::left(dscores, kKeyTile), keys_, ld_,
                       dq_ + first, ld_, true);
  }

  /// Turns `weights` from scores into P ∘ Z, and `dscores` from dO vᵀ into dS. dS is zero where P
  /// is, even if dO vᵀ is infinite: a hidden value may be anything.
  void row_gradient(int64_t t, int64_t r, Range keys) {
    const int64_t cols = round_up(keys.size(), kTilePadding);
    float* weights = weights_ + r * kKeyTile;
    float* dscores = dscores_ + r * kKeyTile;
    // A fully masked row has no gradient: any finite reference makes its weights exp(−inf) = 0.
    const bool blind = lse_[t] == -std::numeric_limits<float>::infinity();
    const float lse = blind ? 0.0f : lse_[t];
    const float delta = delta_[t];
    if (!dropout_.active()) {
#pragma omp simd
      for (int64_t c = 0; c < cols; ++c) {
        weights[c] = vec::exp_below(weights[c] - lse);
        dscores[c] = weights[c] == 0.0f ? 0.0f : weights[c] * (dscores[c] - delta);
      }
      return;
    }
    float factors[kKeyTile] = {};
    dropout_.factors(t, keys.begin, keys.size(), factors);
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) {
      const float weight = vec::exp_below(weights[c] - lse);
      weights[c] = weight * factors[c];
      dscores[c] = weight == 0.0f ? 0.0f : weight * (dscores[c] * factors[c] - delta);
    }
  }

  /// Adds dS along its diagonals.
  void add_to_bias(Range queries, Range keys) {
    for (int64_t r = 0; r < queries.size(); ++r) {
      const float* from = dscores_ + r * kKeyTile;
      float* to = dbias_ + length_ - 1 + keys.begin - (queries.begin + r);
#pragma omp simd
      for (int64_t c = 0; c < keys.size(); ++c) to[c] += from[c];
    }
  }

  const AttentionShape& shape_;
  const AttentionOptions& options_;
  SegmentMask mask_;
  TileDropout dropout_;
  int64_t length_;
  float* dbias_;  // (2 length − 1), of the segment's distances; nullptr if not needed
  int64_t ld_;
  const T *q_, *k_, *v_, *out_, *dout_;
  const float* lse_;
  T *dq_out_, *dk_out_, *dv_out_;
  float *dq_, *delta_;         // (T, D), (T)
  Element *queries_, *douts_;  // (T, D)
  float *weights_, *dscores_;  // (queries, keys)
  Element *left_, *right_;     // (queries, keys): weights_ or dscores_ as an operand
  Element *keys_, *keys_t_;    // (keys, D), (D, keys)
  Element* values_t_;          // (D, keys)
  float *dk_t_, *dv_t_;        // (D, keys)
  TransposedLeft<Element> queries_t_, douts_t_;  // (D, T)
};

/// The gradient of the position bias by distance, for each head of each segment: segments run in
/// parallel, and are added in order afterwards.
class BiasGradients {
 public:
  BiasGradients(const AttentionShape& shape, const Tensor& sum)
      : heads_(shape.heads), sum_(sum), parts_(scratch()) {
    if (!sum.defined()) return;
    const auto floats = static_cast<size_t>(2 * shape.batch * shape.seq * heads_);
    if (parts_.size() < floats) parts_.resize(floats);
  }

  float* of(const AttentionWork::Item& item) const {
    if (!sum_.defined()) return nullptr;
    const Range rows = item.segment.rows;
    return parts_.data() + 2 * (rows.begin * heads_ + item.head * rows.size());
  }

  void add(const AttentionWork& work) const {
    if (!sum_.defined() || heads_ == 0) return;
    const int64_t columns = sum_.dim(1), segments = work.heads_of_segments() / heads_;
    parallel_for_each(heads_, [&](int64_t h) {
      for (int64_t i = 0; i < segments; ++i) {
        const AttentionWork::Item item = work.whole(i * heads_ + h);
        const int64_t length = item.segment.rows.size();
        if (length == 0) continue;
        const float* from = of(item);
        float* to = sum_.data<float>() + h * columns + columns / 2 - (length - 1);
#pragma omp simd
        for (int64_t d = 0; d < 2 * length - 1; ++d) to[d] += from[d];
      }
    });
  }

 private:
  /// Belongs to the calling thread and only grows, so steps do not allocate.
  static std::vector<float>& scratch() {
    thread_local std::vector<float> parts;
    return parts;
  }

  int64_t heads_;
  Tensor sum_;                 // (Hl, 2R − 1)
  std::vector<float>& parts_;  // (segments, Hl, 2 length − 1)
};

}  // namespace

void attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                        const Tensor& log_sum_exp, const AttentionOptions& given, Tensor dqkv,
                        Tensor dposition_bias) {
  AttentionOptions options = given;
  options.dropout = given.dropout.resolved();
  const AttentionShape shape(qkv);
  const AttentionWork work(shape, options);
  const BiasGradients bias(shape, dposition_bias);
  dispatch_tiles(qkv.dtype(), [&]<typename T, typename Element>() {
    const T *in = qkv.data<T>(), *o = out.data<T>(), *d_o = dout.data<T>();
    const float* lse = log_sum_exp.data<float>();
    T* to = dqkv.data<T>();
    parallel_for_each(work.heads_of_segments(), [&](int64_t i) {
      const AttentionWork::Item item = work.whole(i);
      if (item.segment.rows.empty()) return;
      [[maybe_unused]] const typename TileProducts<Element>::Scope scope;
      HeadBackward<T, Element>(shape, options, in, o, d_o, lse, to, bias.of(item), item).run();
    });
  });
  bias.add(work);
}

}  // namespace tessera::cpu
