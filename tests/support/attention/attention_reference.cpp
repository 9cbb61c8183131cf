#include "tests/support/attention/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::test {

std::vector<double> AttentionReference::weights(const std::vector<double>& qkv, int64_t b,
                                                int64_t h, int64_t t, double* log_sum_exp) const {
  constexpr double kMinusInf = -std::numeric_limits<double>::infinity();
  std::vector<double> scores(static_cast<size_t>(seq), kMinusInf);
  double max = kMinusInf;
  for (int64_t s = 0; s < seq; ++s) {
    if (hidden(b, h, t, s)) continue;
    double score = 0.0;
    for (int64_t i = 0; i < d; ++i) {
      score += qkv[at(b, t, 0, h) + static_cast<size_t>(i)] *
               qkv[at(b, s, 1, h) + static_cast<size_t>(i)];
    }
    score = scale * score + (additive ? additive(b, h, t, s) : 0.0);
    scores[static_cast<size_t>(s)] = score;
    max = std::max(max, score);
  }
  double sum = 0.0;
  for (double& score : scores) {
    score = max == kMinusInf ? 0.0 : std::exp(score - max);
    sum += score;
  }
  for (double& score : scores) score = sum > 0.0 ? score / sum : 0.0;
  *log_sum_exp = sum > 0.0 ? max + std::log(sum) : kMinusInf;
  return scores;
}

AttentionReference::Result AttentionReference::forward(const std::vector<double>& qkv) const {
  Result result;
  result.out.assign(static_cast<size_t>(batch * seq * heads * d), 0.0);
  result.log_sum_exp.assign(static_cast<size_t>(batch * heads * seq), 0.0);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < seq; ++t) {
        double* lse = &result.log_sum_exp[static_cast<size_t>((b * heads + h) * seq + t)];
        const std::vector<double> p = weights(qkv, b, h, t, lse);
        for (int64_t s = 0; s < seq; ++s) {
          const double weight = p[static_cast<size_t>(s)] * factor(b, h, t, s);
          for (int64_t i = 0; i < d; ++i) {
            result.out[out_at(b, t, h) + static_cast<size_t>(i)] +=
                weight * qkv[at(b, s, 2, h) + static_cast<size_t>(i)];
          }
        }
      }
    }
  }
  return result;
}

std::vector<double> AttentionReference::backward(const std::vector<double>& qkv,
                                                 const std::vector<double>& dout) const {
  std::vector<double> dqkv(qkv.size(), 0.0);
  const std::vector<double> dscores = score_gradients(qkv, dout);
  size_t pair = 0;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < seq; ++t) {
        double lse = 0.0;
        const std::vector<double> p = weights(qkv, b, h, t, &lse);
        for (int64_t s = 0; s < seq; ++s) {
          const double weight = p[static_cast<size_t>(s)] * factor(b, h, t, s);
          const double ds = dscores[pair++] * scale;
          for (int64_t i = 0; i < d; ++i) {
            const auto j = static_cast<size_t>(i);
            dqkv[at(b, s, 2, h) + j] += weight * dout[out_at(b, t, h) + j];
            dqkv[at(b, t, 0, h) + j] += ds * qkv[at(b, s, 1, h) + j];
            dqkv[at(b, s, 1, h) + j] += ds * qkv[at(b, t, 0, h) + j];
          }
        }
      }
    }
  }
  return dqkv;
}

std::vector<double> AttentionReference::score_gradients(const std::vector<double>& qkv,
                                                        const std::vector<double>& dout) const {
  std::vector<double> all;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < seq; ++t) {
        double lse = 0.0, mean = 0.0;
        const std::vector<double> p = weights(qkv, b, h, t, &lse);
        std::vector<double> dp(p.size(), 0.0);
        for (int64_t s = 0; s < seq; ++s) {
          const auto k = static_cast<size_t>(s);
          for (int64_t i = 0; i < d; ++i) {
            const auto j = static_cast<size_t>(i);
            dp[k] += factor(b, h, t, s) * dout[out_at(b, t, h) + j] * qkv[at(b, s, 2, h) + j];
          }
          mean += p[k] * dp[k];
        }
        for (size_t k = 0; k < p.size(); ++k) all.push_back(p[k] * (dp[k] - mean));
      }
    }
  }
  return all;
}

std::vector<double> AttentionReference::all_weights(const std::vector<double>& qkv) const {
  std::vector<double> all;
  double lse = 0.0;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < seq; ++t) {
        const std::vector<double> row = weights(qkv, b, h, t, &lse);
        all.insert(all.end(), row.begin(), row.end());
      }
    }
  }
  return all;
}

namespace {

/// The document of a row: the last one that begins at or before it.
int64_t document_of(const Tensor& documents, int64_t row) {
  const auto ends = documents.span<int32_t>();
  int64_t document = 0;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    if (ends[i] <= row && row < ends[i + 1]) document = static_cast<int64_t>(i);
  }
  return document;
}

/// The position of row b × seq + t in its document or, without documents, in its sequence.
int64_t position_of(const AttentionMask& mask, int64_t seq, int64_t b, int64_t t) {
  if (!mask.documents.defined()) return t;
  const int64_t row = b * seq + t;
  return row -
         mask.documents.span<int32_t>()[static_cast<size_t>(document_of(mask.documents, row))];
}

/// The element of a pair of one document in `hidden` or `additive`.
int64_t plane_index(const AttentionMask& mask, const Tensor& plane, int64_t seq, int64_t heads,
                    int64_t b, int64_t h, int64_t t, int64_t s) {
  if (plane.shape().rank() == 2) return t * seq + s;
  if (plane.shape().rank() == 3) {
    const int64_t which = plane.dim(0) == 1 ? 0 : h, size = plane.dim(1);
    return (which * size + position_of(mask, seq, b, t)) * size + position_of(mask, seq, b, s);
  }
  const int64_t which = plane.dim(1) == 1 ? b : b * heads + h;
  return (which * seq + t) * seq + s;
}

}  // namespace

bool hides(const AttentionMask& mask, int64_t seq, int64_t heads, int64_t b, int64_t h, int64_t t,
           int64_t s) {
  const int64_t query = position_of(mask, seq, b, t), key = position_of(mask, seq, b, s);
  if (mask.causal && s > t && key >= mask.prefix) return true;
  const bool outside =
      std::abs(t - s) >= mask.window * mask.dilation || std::abs(t - s) % mask.dilation != 0;
  if (mask.window > 0 && outside && std::min(query, key) >= mask.global_tokens) return true;
  if (mask.lengths.defined() && s >= mask.lengths.data<int32_t>()[b]) return true;
  if (mask.hidden_keys.defined() && mask.hidden_keys.data<uint8_t>()[b * seq + s] != 0) return true;
  if (mask.documents.defined() &&
      document_of(mask.documents, b * seq + t) != document_of(mask.documents, b * seq + s)) {
    return true;
  }
  return mask.hidden.defined() &&
         mask.hidden.data<uint8_t>()[plane_index(mask, mask.hidden, seq, heads, b, h, t, s)] != 0;
}

double additive_of(const AttentionMask& mask, int64_t seq, int64_t heads, int64_t b, int64_t h,
                   int64_t t, int64_t s) {
  if (!mask.additive.defined()) return 0.0;
  const int64_t at = plane_index(mask, mask.additive, seq, heads, b, h, t, s);
  return static_cast<double>(mask.additive.data<float>()[at]);
}

}  // namespace tessera::test
