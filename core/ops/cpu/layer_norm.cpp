#include <cmath>
#include <vector>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

struct Moments {
  float mean;
  float rstd;
};

// Two passes over a row, the second from the cache: E[x²] − E[x]² would suffer cancellation.
template <typename T>
float mean_of(const T* x, int64_t n) {
  float sum = 0.0f;
  const auto block = [&](int64_t first, auto count) {
#pragma omp simd reduction(+ : sum)
    for (int64_t c = first; c < first + count; ++c) sum += to_float(x[c]);
  };
  for_each_block<kSumBlock>(n, block, x);
  return sum / static_cast<float>(n);
}

/// Those of a layer norm or, without a mean, of an RMS norm, whose mean is taken as 0.
template <typename T>
Moments moments(const T* x, int64_t n, bool with_mean, float eps) {
  const float mean = with_mean ? mean_of(x, n) : 0.0f;
  float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
  for (int64_t c = 0; c < n; ++c) {
    const float centred = to_float(x[c]) - mean;
    squares += centred * centred;
  }
  return {mean, 1.0f / std::sqrt(squares / static_cast<float>(n) + eps)};
}

template <bool kBias, typename T>
void normalise(const T* x, const T* weight, const T* bias, Moments m, int64_t n, T* y) {
  const auto value = [=](int64_t c) {
    const float norm = (to_float(x[c]) - m.mean) * m.rstd;
    if constexpr (kBias) return std::fma(norm, to_float(weight[c]), to_float(bias[c]));
    return norm * to_float(weight[c]);
  };
  map_blocks(n, y, value);
}

/// Σ dy·w / n, or 0 in an RMS norm, and Σ dy·w·x̂ / n.
struct Projections {
  float mean;
  float along;
};

template <typename T>
Projections project(const T* dy, const T* x, const T* weight, Moments m, bool with_mean,
                    int64_t n) {
  float sum = 0.0f, along = 0.0f;
  const auto block = [&](int64_t first, auto count) {
#pragma omp simd reduction(+ : sum, along)
    for (int64_t c = first; c < first + count; ++c) {
      const float dnorm = to_float(dy[c]) * to_float(weight[c]);
      sum += dnorm;
      along += dnorm * ((to_float(x[c]) - m.mean) * m.rstd);
    }
  };
  for_each_block<kSumBlock>(n, block, dy, x);
  return {with_mean ? sum / static_cast<float>(n) : 0.0f, along / static_cast<float>(n)};
}

template <bool kResidual, typename T>
void backward_row(const T* dy, const T* x, const T* weight, const T* residual, Moments m,
                  bool with_mean, int64_t n, T* dx, float* dweight, float* dbias) {
  const Projections p = project(dy, x, weight, m, with_mean, n);
  const auto block = [=](int64_t first, auto count) {
#pragma omp simd
    for (int64_t c = first; c < first + count; ++c) {
      const float g = to_float(dy[c]);
      const float norm = (to_float(x[c]) - m.mean) * m.rstd;
      float out = m.rstd * (g * to_float(weight[c]) - p.mean - norm * p.along);
      if constexpr (kResidual) out += to_float(residual[c]);
      dx[c] = from_float<T>(out);
      dweight[c] += g * norm;
      dbias[c] += g;
    }
  };
  if constexpr (kResidual) {
    for_each_block(n, block, residual, dx);
  } else {
    for_each_block(n, block, dx);
  }
}

/// sum = a + b, rounded.
template <typename T>
void add_rows(const T* a, const T* b, int64_t n, T* sum) {
  map_blocks(n, sum, [=](int64_t c) { return to_float(a[c]) + to_float(b[c]); });
}

}  // namespace

void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps,
                        Tensor y, Tensor mean, Tensor rstd) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    const int64_t columns = x.dim(-1);
    const T *in = x.data<T>(), *w = weight.data<T>();
    const T* b = bias.defined() ? bias.data<T>() : nullptr;
    T* out = y.data<T>();
    float* means = mean.defined() ? mean.data<float>() : nullptr;
    float* rstds = rstd.data<float>();
    parallel_for(rstd.numel(), grain_for(columns), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* in_row = in + row * columns;
        T* out_row = out + row * columns;
        const Moments m = moments(in_row, columns, means != nullptr, eps);
        if (means != nullptr) means[row] = m.mean;
        rstds[row] = m.rstd;
        if (b != nullptr) {
          normalise<true>(in_row, w, b, m, columns, out_row);
        } else {
          normalise<false>(in_row, w, b, m, columns, out_row);
        }
      }
    });
  });
}

// A block's sums for dweight and dbias stay in the cache while its rows are read once.
void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const Tensor& residual, Tensor dx,
                         Tensor dweight, Tensor dbias, const Tensor& addend,
                         Accumulate accumulate) {
  const int64_t columns = x.dim(-1);
  const RowBlocks blocks(rstd.numel(), 2 * columns);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T *dys = dy.data<T>(), *xs = x.data<T>(), *w = weight.data<T>();
    const T* add = residual.defined() ? residual.data<T>() : nullptr;
    const T* more = addend.defined() ? addend.data<T>() : nullptr;
    T* dxs = dx.data<T>();
    const float* means = mean.defined() ? mean.data<float>() : nullptr;
    const float* rstds = rstd.data<float>();
    const int64_t grain = grain_for(blocks.rows_per_block() * columns);
    parallel_for(blocks.count(), grain, [=, &blocks](int64_t begin, int64_t end) {
      std::vector<T> dy_sum(more != nullptr ? static_cast<size_t>(columns) : 0);
      for (int64_t block = begin; block < end; ++block) {
        float* sums = blocks.partial(block);
        std::fill_n(sums, 2 * columns, 0.0f);
        const Range rows = blocks.rows(block);
        for (int64_t row = rows.begin; row < rows.end; ++row) {
          const Moments m{means != nullptr ? means[row] : 0.0f, rstds[row]};
          const int64_t at = row * columns;
          const T* dy_row = dys + at;
          if (more != nullptr) {
            add_rows(dy_row, more + at, columns, dy_sum.data());
            dy_row = dy_sum.data();
          }
          if (add != nullptr) {
            backward_row<true>(dy_row, xs + at, w, add + at, m, means != nullptr, columns, dxs + at,
                               sums, sums + columns);
          } else {
            backward_row<false>(dy_row, xs + at, w, add, m, means != nullptr, columns, dxs + at,
                                sums, sums + columns);
          }
        }
      }
    });
  });
  blocks.add_up(0, columns, accumulate, dweight.data<float>());
  if (dbias.defined()) blocks.add_up(columns, columns, accumulate, dbias.data<float>());
}

void bias_dropout_add_norm(const Tensor& x, const Tensor& bias, const Tensor& residual,
                           const Dropout& dropout, Tensor sum, const Tensor& weight,
                           const Tensor& norm_bias, float eps, Tensor y, Tensor mean, Tensor rstd) {
  cpu::bias_dropout_add(x, bias, residual, dropout, sum);
  cpu::layer_norm_forward(sum, weight, norm_bias, eps, y, mean, rstd);
}

}  // namespace tessera::cpu
