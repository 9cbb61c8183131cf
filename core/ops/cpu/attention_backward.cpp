#include <algorithm>
#include <limits>

#include "core/ops/cpu/attention.h"
#include "core/ops/cpu/attention_mask_tiles.h"
#include "core/ops/cpu/attention_segments.h"
#include "core/ops/cpu/attention_tiles.h"
#include "core/ops/cpu/vector_math.h"
#include "core/parallel_for.h"

namespace tessera::cpu {
namespace {

/// The gradient of one head of a segment, whose rows are counted from its first. With S = scale × q
/// kᵀ, P = softmax(S), Z the dropout factors and O = (P ∘ Z) v:
///   dv = (P ∘ Z)ᵀ dO,  dP = Z ∘ (dO vᵀ),  dS = P ∘ (dP − rowsum(dO ∘ O)),
///   dq = scale × dS k,  dk = scale × dSᵀ q.
template <typename T>
class HeadBackward {
 public:
  HeadBackward(const AttentionShape& shape, const AttentionOptions& options, const T* qkv,
               const T* out, const T* dout, const float* log_sum_exp, T* dqkv,
               const AttentionWork::Item& item)
      : shape_(shape),
        options_(options),
        mask_(shape, options, item.segment, item.head),
        dropout_(options, shape, item.segment.place, item.head),
        length_(item.segment.rows.size()),
        ld_(shape.padded_d) {
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

    TileScratch& scratch = TileScratch::of_this_thread();
    const int64_t rows = round_up(length_, kTilePadding);
    scratch.begin(rows * (ld_ + 1) + 2 * kQueryTile * (ld_ + kKeyTile) + 5 * kKeyTile * ld_);
    dq_ = scratch.tile(rows, ld_);
    delta_ = scratch.tile(rows, 1);
    queries_ = scratch.tile(kQueryTile, ld_);
    douts_ = scratch.tile(kQueryTile, ld_);
    weights_ = scratch.tile(kQueryTile, kKeyTile);
    dscores_ = scratch.tile(kQueryTile, kKeyTile);
    keys_ = scratch.tile(kKeyTile, ld_);
    keys_t_ = scratch.tile(ld_, kKeyTile);
    values_t_ = scratch.tile(ld_, kKeyTile);
    dk_ = scratch.tile(kKeyTile, ld_);
    dv_ = scratch.tile(kKeyTile, ld_);
  }

  void run() {
    std::fill_n(dq_, length_ * ld_, 0.0f);
    sum_dout_times_out();
    for (int64_t begin = 0; begin < length_; begin += kKeyTile) {
      key_tile({begin, std::min(begin + kKeyTile, length_)});
    }
    store_tile(dq_, ld_, length_, shape_.d, dq_out_, shape_.row_stride);
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
    std::fill_n(dk_, keys.size() * ld_, 0.0f);
    std::fill_n(dv_, keys.size() * ld_, 0.0f);
    for (int64_t begin = 0; begin < length_; begin += kQueryTile) {
      const Range queries{begin, std::min(begin + kQueryTile, length_)};
      const Range visible = mask_.visible_keys(queries);
      const Range seen{keys.begin, std::min(keys.end, visible.end)};
      if (seen.empty() || visible.begin >= keys.end || mask_.hides_all(queries, seen)) continue;
      if (!loaded) load_keys(keys);
      loaded = true;
      tile(queries, seen);
    }
    store_tile(dk_, ld_, keys.size(), shape_.d, dk_out_ + from, shape_.row_stride);
    store_tile(dv_, ld_, keys.size(), shape_.d, dv_out_ + from, shape_.row_stride);
  }

  void load_keys(Range keys) {
    const int64_t stride = shape_.row_stride, from = keys.begin * stride;
    load_tile(k_ + from, stride, keys.size(), shape_.d, options_.scale, keys_, ld_);
    load_transposed(k_ + from, stride, keys.size(), shape_.d, keys_t_, kKeyTile);
    load_transposed(v_ + from, stride, keys.size(), shape_.d, values_t_, kKeyTile);
  }

  void tile(Range queries, Range keys) {
    const int64_t rows = queries.size(), cols = round_up(keys.size(), kTilePadding);
    // The queries carry the scale, so dk needs no other; the keys carry it for dq.
    load_tile(q_ + queries.begin * shape_.row_stride, shape_.row_stride, rows, shape_.d,
              options_.scale, queries_, ld_);
    load_tile(dout_ + queries.begin * shape_.out_stride, shape_.out_stride, rows, shape_.d, 1.0f,
              douts_, ld_);
    tile_gemm(rows, cols, shape_.d, {queries_, ld_, 1}, keys_t_, kKeyTile, weights_, kKeyTile,
              false);
    mask_.apply(queries, keys, weights_);
    tile_gemm(rows, cols, shape_.d, {douts_, ld_, 1}, values_t_, kKeyTile, dscores_, kKeyTile,
              false);
    for (int64_t r = 0; r < rows; ++r) row_gradient(queries.begin + r, r, keys);
    tile_gemm(keys.size(), ld_, rows, {weights_, 1, kKeyTile}, douts_, ld_, dv_, ld_, true);
    tile_gemm(keys.size(), ld_, rows, {dscores_, 1, kKeyTile}, queries_, ld_, dk_, ld_, true);
    tile_gemm(rows, ld_, keys.size(), {dscores_, kKeyTile, 1}, keys_, ld_,
              dq_ + queries.begin * ld_, ld_, true);
  }

  /// weights: scores → P ∘ Z; dscores: dO vᵀ → dS, which is zero where P is, even if dO vᵀ is
  /// infinite: a hidden value may be anything.
  void row_gradient(int64_t t, int64_t r, Range keys) {
    const int64_t cols = round_up(keys.size(), kTilePadding);
    float* weights = weights_ + r * kKeyTile;
    float* dscores = dscores_ + r * kKeyTile;
    // A row that saw nothing has no gradient: any finite reference makes its weights exp(−inf) = 0.
    const bool blind = lse_[t] == -std::numeric_limits<float>::infinity();
    const float lse = blind ? 0.0f : lse_[t];
    const float delta = delta_[t];
    if (!dropout_.active()) {
#pragma omp simd
      for (int64_t c = 0; c < cols; ++c) {
        weights[c] = vec::exp(weights[c] - lse);
        dscores[c] = weights[c] == 0.0f ? 0.0f : weights[c] * (dscores[c] - delta);
      }
      return;
    }
    float factors[kKeyTile] = {};
    dropout_.factors(t, keys.begin, keys.size(), factors);
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) {
      const float weight = vec::exp(weights[c] - lse);
      weights[c] = weight * factors[c];
      dscores[c] = weight == 0.0f ? 0.0f : weight * (dscores[c] * factors[c] - delta);
    }
  }

  const AttentionShape& shape_;
  const AttentionOptions& options_;
  SegmentMask mask_;
  WeightDropout dropout_;
  int64_t length_, ld_;
  const T *q_, *k_, *v_, *out_, *dout_;
  const float* lse_;
  T *dq_out_, *dk_out_, *dv_out_;
  float *dq_, *delta_;         // (T, D), (T)
  float *queries_, *douts_;    // (queries, D)
  float *weights_, *dscores_;  // (queries, keys)
  float *keys_, *keys_t_;      // (keys, D) scaled, (D, keys)
  float* values_t_;            // (D, keys)
  float *dk_, *dv_;            // (keys, D)
};

}  // namespace

void attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                        const Tensor& log_sum_exp, const AttentionOptions& options, Tensor dqkv) {
  const AttentionShape shape(qkv);
  const AttentionWork work(shape, options);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const T *in = qkv.data<T>(), *o = out.data<T>(), *d_o = dout.data<T>();
    const float* lse = log_sum_exp.data<float>();
    T* to = dqkv.data<T>();
    parallel_for_each(work.heads_of_segments(), [&](int64_t i) {
      const AttentionWork::Item item = work.whole(i);
      if (item.segment.rows.empty()) return;
      HeadBackward<T>(shape, options, in, o, d_o, lse, to, item).run();
    });
  });
}

}  // namespace tessera::cpu
