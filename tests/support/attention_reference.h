#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace tessera::test {

/// Multi-head attention by the textbook, in double precision: qkv (B, T, 3, H, D).
struct AttentionReference {
  int64_t batch, seq, heads, d;
  double scale;
  /// Whether query t may not see key s.
  std::function<bool(int64_t b, int64_t h, int64_t t, int64_t s)> hidden;
  /// The factor of a weight after the softmax: 1 without dropout.
  std::function<double(int64_t b, int64_t h, int64_t t, int64_t s)> factor;

  struct Result {
    std::vector<double> out;          // (B, T, H, D)
    std::vector<double> log_sum_exp;  // (B, H, T)
  };

  Result forward(const std::vector<double>& qkv) const;
  /// dqkv for the gradient `dout` of out.
  std::vector<double> backward(const std::vector<double>& qkv,
                               const std::vector<double>& dout) const;

 private:
  size_t at(int64_t b, int64_t t, int which, int64_t h) const {
    return static_cast<size_t>((((b * seq + t) * 3 + which) * heads + h) * d);
  }
  size_t out_at(int64_t b, int64_t t, int64_t h) const {
    return static_cast<size_t>(((b * seq + t) * heads + h) * d);
  }
  /// The softmax weights of one query over all keys (zeros where all are hidden), and log Σ exp.
  std::vector<double> weights(const std::vector<double>& qkv, int64_t b, int64_t h, int64_t t,
                              double* log_sum_exp) const;
};

}  // namespace tessera::test
