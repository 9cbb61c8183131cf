#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/masks/attention_mask.h"

namespace tessera::test {

/// Textbook multi-head or grouped-query attention in double precision: qkv (B, T, H + 2 K, D).
struct AttentionReference {
  int64_t batch, seq, heads, d;
  double scale;
  /// Whether key s is hidden from query t.
  std::function<bool(int64_t b, int64_t h, int64_t t, int64_t s)> hidden;
  /// The factor of a weight after softmax: 1 without dropout.
  std::function<double(int64_t b, int64_t h, int64_t t, int64_t s)> factor;
  /// The bias of a scaled score; none if empty.
  std::function<double(int64_t b, int64_t h, int64_t t, int64_t s)> additive = {};
  int64_t kv_heads = 0;  ///< 0: as many as heads

  struct Result {
    std::vector<double> out;          // (B, T, H, D)
    std::vector<double> log_sum_exp;  // (B, H, T)
  };

  Result forward(const std::vector<double>& qkv) const;
  /// Returns dqkv for the gradient `dout` of out.
  std::vector<double> backward(const std::vector<double>& qkv,
                               const std::vector<double>& dout) const;
  /// The gradients of the scores, (B, H, T, T).
  std::vector<double> score_gradients(const std::vector<double>& qkv,
                                      const std::vector<double>& dout) const;
  /// The weights without dropout, (B, H, T, T).
  std::vector<double> all_weights(const std::vector<double>& qkv) const;

 private:
  /// The query (which = 0), key (1) or value (2) of a head in qkv.
  size_t at(int64_t b, int64_t t, int which, int64_t h) const {
    const int64_t groups = kv_heads == 0 ? heads : kv_heads;
    const int64_t place = which == 0 ? h : heads + (which - 1) * groups + h / (heads / groups);
    return static_cast<size_t>(((b * seq + t) * (heads + 2 * groups) + place) * d);
  }
  size_t out_at(int64_t b, int64_t t, int64_t h) const {
    return static_cast<size_t>(((b * seq + t) * heads + h) * d);
  }
  /// The softmax weights of one query over all keys (zeros if all are hidden), and log Σ exp.
  std::vector<double> weights(const std::vector<double>& qkv, int64_t b, int64_t h, int64_t t,
                              double* log_sum_exp) const;
};

/// Evaluates a mask for one query and one key, part by part, as AttentionMask documents it. `heads`
/// is the number of all heads, and `h` counts among them. `hidden` and `additive` have shapes that
/// attention accepts.
bool hides(const AttentionMask& mask, int64_t seq, int64_t heads, int64_t b, int64_t h, int64_t t,
           int64_t s);
double additive_of(const AttentionMask& mask, int64_t seq, int64_t heads, int64_t b, int64_t h,
                   int64_t t, int64_t s);

}  // namespace tessera::test
