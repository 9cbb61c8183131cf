#include <algorithm>
#include <limits>

#include "core/ops/cpu/attention.h"
#include "core/ops/cpu/attention_tiles.h"
#include "core/ops/cpu/vector_math.h"
#include "core/parallel_for.h"

namespace tessera::cpu {
namespace {

/// The gradient of one head of one sequence. With S = scale × q kᵀ, P = softmax(S), Z the dropout
/// factors and O = (P ∘ Z) v:
///   dv = (P ∘ Z)ᵀ dO,  dP = Z ∘ (dO vᵀ),  dS = P ∘ (dP − rowsum(dO ∘ O)),
///   dq = scale × dS k,  dk = scale × dSᵀ q.
template <typename T>
class HeadBackward {
 public:
  HeadBackward(const AttentionShape& shape, const AttentionOptions& options, const T* qkv,
               const T* out, const T* dout, const float* log_sum_exp, T* dqkv, int64_t b, int64_t h)
      : shape_(shape),
        options_(options),
        dropout_(options, shape.seq, b, h),
        q_(qkv + shape.qkv_offset(b, 0, h)),
        k_(qkv + shape.qkv_offset(b, 1, h)),
        v_(qkv + shape.qkv_offset(b, 2, h)),
        out_(out + shape.out_offset(b, h)),
        dout_(dout + shape.out_offset(b, h)),
        lse_(log_sum_exp + (b * shape.heads + h) * shape.seq),
        dq_out_(dqkv + shape.qkv_offset(b, 0, h)),
        dk_out_(dqkv + shape.qkv_offset(b, 1, h)),
        dv_out_(dqkv + shape.qkv_offset(b, 2, h)),
        ld_(shape.padded_d) {
    TileScratch& scratch = TileScratch::of_this_thread();
    const int64_t seq = round_up(shape.seq, kTilePadding);
    scratch.begin(seq * (ld_ + 1) + 2 * kQueryTile * (ld_ + kKeyTile) + 5 * kKeyTile * ld_);
    dq_ = scratch.tile(seq, ld_);
    delta_ = scratch.tile(seq, 1);
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
    std::fill_n(dq_, shape_.seq * ld_, 0.0f);
    sum_dout_times_out();
    for (int64_t begin = 0; begin < shape_.seq; begin += kKeyTile) {
      key_tile({begin, std::min(begin + kKeyTile, shape_.seq)});
    }
    store_tile(dq_, ld_, shape_.seq, shape_.d, dq_out_, shape_.row_stride);
  }

 private:
  void sum_dout_times_out() {
    for (int64_t t = 0; t < shape_.seq; ++t) {
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
    const int64_t stride = shape_.row_stride;
    const int64_t from = keys.begin * stride;
    load_tile(k_ + from, stride, keys.size(), shape_.d, options_.scale, keys_, ld_);
    load_transposed(k_ + from, stride, keys.size(), shape_.d, keys_t_, kKeyTile);
    load_transposed(v_ + from, stride, keys.size(), shape_.d, values_t_, kKeyTile);
    std::fill_n(dk_, kKeyTile * ld_, 0.0f);
    std::fill_n(dv_, kKeyTile * ld_, 0.0f);
    for (int64_t begin = 0; begin < shape_.seq; begin += kQueryTile) {
      const Range queries{begin, std::min(begin + kQueryTile, shape_.seq)};
      if (cover(options_.mask, queries, keys) != TileCover::all) tile(queries, keys);
    }
    store_tile(dk_, ld_, keys.size(), shape_.d, dk_out_ + from, stride);
    store_tile(dv_, ld_, keys.size(), shape_.d, dv_out_ + from, stride);
  }

  void tile(Range queries, Range keys) {
    const int64_t rows = queries.size();
    // The queries carry the scale, so dk needs no other; the keys carry it for dq.
    load_tile(q_ + queries.begin * shape_.row_stride, shape_.row_stride, rows, shape_.d,
              options_.scale, queries_, ld_);
    load_tile(dout_ + queries.begin * shape_.out_stride, shape_.out_stride, rows, shape_.d, 1.0f,
              douts_, ld_);
    tile_gemm(rows, kKeyTile, shape_.d, {queries_, ld_, 1}, keys_t_, kKeyTile, weights_, kKeyTile,
              false);
    hide_masked(options_.mask, queries, keys, weights_);
    tile_gemm(rows, kKeyTile, shape_.d, {douts_, ld_, 1}, values_t_, kKeyTile, dscores_, kKeyTile,
              false);
    for (int64_t r = 0; r < rows; ++r) row_gradient(queries.begin + r, r, keys);
    tile_gemm(keys.size(), ld_, rows, {weights_, 1, kKeyTile}, douts_, ld_, dv_, ld_, true);
    tile_gemm(keys.size(), ld_, rows, {dscores_, 1, kKeyTile}, queries_, ld_, dk_, ld_, true);
    tile_gemm(rows, ld_, keys.size(), {dscores_, kKeyTile, 1}, keys_, ld_,
              dq_ + queries.begin * ld_, ld_, true);
  }

  /// weights: scores → P ∘ Z; dscores: dO vᵀ → dS.
  void row_gradient(int64_t t, int64_t r, Range keys) {
    float* weights = weights_ + r * kKeyTile;
    float* dscores = dscores_ + r * kKeyTile;
    // A row that saw nothing has no gradient: any finite reference makes its weights exp(−inf) = 0.
    const bool blind = lse_[t] == -std::numeric_limits<float>::infinity();
    const float lse = blind ? 0.0f : lse_[t];
    const float delta = delta_[t];
    if (!dropout_.active()) {
#pragma omp simd
      for (int64_t c = 0; c < kKeyTile; ++c) {
        weights[c] = vec::exp(weights[c] - lse);
        dscores[c] = weights[c] * (dscores[c] - delta);
      }
      return;
    }
    float factors[kKeyTile] = {};
    dropout_.factors(t, keys.begin, keys.size(), factors);
#pragma omp simd
    for (int64_t c = 0; c < kKeyTile; ++c) {
      const float weight = vec::exp(weights[c] - lse);
      weights[c] = weight * factors[c];
      dscores[c] = weight * (dscores[c] * factors[c] - delta);
    }
  }

  const AttentionShape& shape_;
  const AttentionOptions& options_;
  WeightDropout dropout_;
  const T *q_, *k_, *v_, *out_, *dout_;
  const float* lse_;
  T *dq_out_, *dk_out_, *dv_out_;
  int64_t ld_;
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
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    parallel_for(shape.batch * shape.heads, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        HeadBackward<T>(shape, options, qkv.data<T>(), out.data<T>(), dout.data<T>(),
                        log_sum_exp.data<float>(), dqkv.data<T>(), i / shape.heads, i % shape.heads)
            .run();
      }
    });
  });
}

}  // namespace tessera::cpu
