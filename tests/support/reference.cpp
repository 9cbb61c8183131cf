#include "tests/support/reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera::test::reference {

LayerNorm layer_norm(View x, View weight, View bias, int64_t columns, double eps, Norm type) {
  const auto n = static_cast<size_t>(columns);
  LayerNorm result;
  for (size_t row = 0; row + n <= x.size(); row += n) {
    double mean = 0.0;
    for (size_t c = 0; c < n && type == Norm::layer; ++c) mean += x[row + c];
    mean /= static_cast<double>(n);
    double variance = 0.0;
    for (size_t c = 0; c < n; ++c) variance += (x[row + c] - mean) * (x[row + c] - mean);
    variance /= static_cast<double>(n);
    const double rstd = 1.0 / std::sqrt(variance + eps);
    for (size_t c = 0; c < n; ++c) {
      result.y.push_back((x[row + c] - mean) * rstd * weight[c] + (bias.empty() ? 0.0 : bias[c]));
    }
    result.mean.push_back(mean);
    result.rstd.push_back(rstd);
  }
  return result;
}

LayerNormGradient layer_norm_gradient(View dy, View x, View weight, int64_t columns, double eps,
                                      Norm type) {
  const auto n = static_cast<size_t>(columns);
  const LayerNorm forward = layer_norm(x, weight, {}, columns, eps, type);
  LayerNormGradient result{Doubles(x.size()), Doubles(n), Doubles(n)};
  for (size_t r = 0; r < forward.mean.size(); ++r) {
    const double rstd = forward.rstd[r];
    double mean = 0.0, along = 0.0;
    for (size_t c = 0; c < n; ++c) {
      const size_t i = r * n + c;
      const double norm = (x[i] - forward.mean[r]) * rstd;
      if (type == Norm::layer) mean += dy[i] * weight[c] / static_cast<double>(n);
      along += dy[i] * weight[c] * norm / static_cast<double>(n);
      result.dweight[c] += dy[i] * norm;
      result.dbias[c] += dy[i];
    }
    for (size_t c = 0; c < n; ++c) {
      const size_t i = r * n + c;
      const double norm = (x[i] - forward.mean[r]) * rstd;
      result.dx[i] = rstd * (dy[i] * weight[c] - mean - norm * along);
    }
  }
  return result;
}

double activation(double x, Activation f) {
  switch (f) {
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
    case Activation::relu:
      return std::max(x, 0.0);
  }
  return 0.0;
}

double activation_slope(double x, Activation f) {
  switch (f) {
    case Activation::gelu: {
      const double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
    }
    case Activation::gelu_tanh: {
      const double k = std::sqrt(2.0 / std::numbers::pi);
      const double t = std::tanh(k * (x + 0.044715 * x * x * x));
      return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * k * (1.0 + 3.0 * 0.044715 * x * x);
    }
    case Activation::silu: {
      const double logistic = 1.0 / (1.0 + std::exp(-x));
      return logistic * (1.0 + x * (1.0 - logistic));
    }
    case Activation::relu:
      return x > 0.0 ? 1.0 : 0.0;
  }
  return 0.0;
}

namespace {

double log_sum_exp(View row) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (const double value : row) sum += std::exp(value - max);
  return max + std::log(sum);
}

}  // namespace

Doubles cross_entropy(View logits, std::span<const int32_t> targets, int64_t columns) {
  Doubles losses;
  for (size_t n = 0; n < targets.size(); ++n) {
    const View row = logits.subspan(n * static_cast<size_t>(columns), static_cast<size_t>(columns));
    const int32_t target = targets[n];
    losses.push_back(target < 0 ? 0.0 : log_sum_exp(row) - row[static_cast<size_t>(target)]);
  }
  return losses;
}

Doubles cross_entropy_gradient(View logits, std::span<const int32_t> targets, int64_t columns) {
  const auto width = static_cast<size_t>(columns);
  Doubles gradient(logits.size());
  for (size_t n = 0; n < targets.size(); ++n) {
    if (targets[n] < 0) continue;
    const View row = logits.subspan(n * width, width);
    const double normaliser = log_sum_exp(row);
    for (size_t v = 0; v < width; ++v) gradient[n * width + v] = std::exp(row[v] - normaliser);
    gradient[n * width + static_cast<size_t>(targets[n])] -= 1.0;
  }
  return gradient;
}

// As in torch.optim.AdamW.
AdamWState adamw(const AdamW& s, double grad, AdamWState before) {
  const double beta1 = s.beta1, beta2 = s.beta2, lr = s.lr;
  const auto step = static_cast<double>(s.step);
  AdamWState after = before;
  after.weight *= 1.0 - lr * s.weight_decay;
  after.exp_avg = beta1 * before.exp_avg + (1.0 - beta1) * grad;
  after.exp_avg_sq = beta2 * before.exp_avg_sq + (1.0 - beta2) * grad * grad;
  const double correction1 = 1.0 - std::pow(beta1, step);
  const double correction2 = 1.0 - std::pow(beta2, step);
  const double denominator = std::sqrt(after.exp_avg_sq) / std::sqrt(correction2) + s.eps;
  after.weight -= lr / correction1 * after.exp_avg / denominator;
  return after;
}

// As in the paper's algorithm 2.
LionState lion(const Lion& s, double grad, LionState before) {
  const double beta1 = s.beta1, beta2 = s.beta2, lr = s.lr;
  const double c = beta1 * before.exp_avg + (1.0 - beta1) * grad;
  const double sign = c > 0.0 ? 1.0 : c < 0.0 ? -1.0 : 0.0;
  return {before.weight - lr * (sign + s.weight_decay * before.weight),
          beta2 * before.exp_avg + (1.0 - beta2) * grad};
}

Doubles orthogonalized(View start, int64_t rows, int64_t columns, int64_t steps) {
  const auto m = static_cast<size_t>(rows), n = static_cast<size_t>(columns);
  Doubles x(start.begin(), start.end());
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::sqrt(squares) + 1e-7;
  const auto product = [](const Doubles& a, const Doubles& b, size_t height, size_t inner,
                          size_t width) {
    Doubles c(height * width);
    for (size_t i = 0; i < height; ++i) {
      for (size_t k = 0; k < inner; ++k) {
        for (size_t j = 0; j < width; ++j) c[i * width + j] += a[i * inner + k] * b[k * width + j];
      }
    }
    return c;
  };
  for (int64_t step = 0; step < steps; ++step) {
    Doubles transposed(x.size());
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) transposed[j * m + i] = x[i * n + j];
    }
    const Doubles gram = product(x, transposed, m, n, m), square = product(gram, gram, m, m, m);
    const Doubles first = product(gram, x, m, m, n), second = product(square, x, m, m, n);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = 3.4445 * x[i] - 4.7750 * first[i] + 2.0315 * second[i];
    }
  }
  return x;
}

Doubles column_sum(View x, int64_t columns) {
  Doubles sums(static_cast<size_t>(columns));
  for (size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += x[i];
  return sums;
}

}  // namespace tessera::test::reference
