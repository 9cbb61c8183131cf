#include "core/ops/pooling.h"

#include <algorithm>
#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

/// Columns that are summed at once.
constexpr int64_t kStrip = 64;

/// The rows of document `s` that a rank with the rows [first, first + rows) has, counted from
/// `first`.
Range local_rows(const int32_t* documents, int64_t s, int64_t first, int64_t rows) {
  return {std::clamp<int64_t>(documents[s] - first, 0, rows),
          std::clamp<int64_t>(documents[s + 1] - first, 0, rows)};
}

float one_over_length(const int32_t* documents, int64_t s) {
  return 1.0f / static_cast<float>(documents[s + 1] - documents[s]);
}

/// In double: a vector has few elements beside the pass that made it.
template <typename A, typename B>
double dot(const A* a, const B* b, int64_t columns) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < columns; ++c) {
    sum += static_cast<double>(to_float(a[c])) * static_cast<double>(to_float(b[c]));
  }
  return sum;
}

}  // namespace

void pool_mean(const Tensor& x, const Tensor& documents, Tensor out, int64_t first,
               const Tensor& whole) {
  const int64_t columns = x.dim(-1), rows = rows_of(x);
  const int32_t *ends = documents.data<int32_t>(), *lengths = whole.data<int32_t>();
  dispatch_float(x.dtype(), [&]<typename T>() {
    dispatch_float(out.dtype(), [&]<typename Out>() {
      const T* from = x.data<T>();
      Out* to = out.data<Out>();
      parallel_for(out.dim(0), 1, [=](int64_t begin, int64_t end) {
        for (int64_t s = begin; s < end; ++s) {
          const Range local = local_rows(ends, s, first, rows);
          const float factor = one_over_length(lengths, s);
          for (int64_t c = 0; c < columns; c += kStrip) {
            float sum[kStrip] = {};
            const int64_t width = std::min(kStrip, columns - c);
            for (int64_t row = local.begin; row < local.end; ++row) {
              const T* add = from + row * columns + c;
#pragma omp simd
              for (int64_t i = 0; i < width; ++i) sum[i] += to_float(add[i]);
            }
            Out* mean = to + s * columns + c;
#pragma omp simd
            for (int64_t i = 0; i < width; ++i) mean[i] = from_float<Out>(factor * sum[i]);
          }
        }
      });
    });
  });
}

void pool_mean_backward(const Tensor& dout, const Tensor& documents, Tensor dx, int64_t first,
                        const Tensor& whole) {
  const int64_t columns = dx.dim(-1), rows = rows_of(dx);
  const int32_t *ends = documents.data<int32_t>(), *lengths = whole.data<int32_t>();
  dispatch_float(dx.dtype(), [&]<typename T>() {
    dispatch_float(dout.dtype(), [&]<typename Out>() {
      const Out* from = dout.data<Out>();
      T* to = dx.data<T>();
      parallel_for(dout.dim(0), 1, [=](int64_t begin, int64_t end) {
        for (int64_t s = begin; s < end; ++s) {
          const Range local = local_rows(ends, s, first, rows);
          const float factor = one_over_length(lengths, s);
          const Out* add = from + s * columns;
          for (int64_t row = local.begin; row < local.end; ++row) {
            T* sum = to + row * columns;
#pragma omp simd
            for (int64_t c = 0; c < columns; ++c) {
              sum[c] = from_float<T>(to_float(sum[c]) + factor * to_float(add[c]));
            }
          }
        }
      });
    });
  });
}

void normalize_rows(const Tensor& x, float length, Tensor y, Tensor inverse_norm) {
  const int64_t columns = x.dim(1);
  float* to = y.data<float>();
  float* inverse = inverse_norm.data<float>();
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* from = x.data<T>();
    parallel_for(x.dim(0), grain_for(columns), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const T* row = from + n * columns;
        const auto norm = static_cast<float>(std::sqrt(dot(row, row, columns)));
        inverse[n] = 1.0f / std::max(norm, kSmallestNorm);
        const float factor = length * inverse[n];
#pragma omp simd
        for (int64_t c = 0; c < columns; ++c) to[n * columns + c] = factor * to_float(row[c]);
      }
    });
  });
}

void normalize_rows_backward(const Tensor& dy, const Tensor& y, float length,
                             const Tensor& inverse_norm, Tensor dx) {
  const int64_t columns = y.dim(1);
  const float* gradient = dy.data<float>();
  const float* vector = y.data<float>();
  const float* inverse = inverse_norm.data<float>();
  dispatch_float(dx.dtype(), [&]<typename T>() {
    T* to = dx.data<T>();
    parallel_for(y.dim(0), grain_for(columns), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const float* from = gradient + n * columns;
        const float* at = vector + n * columns;
        const float factor = length * inverse[n];
        const auto along = static_cast<float>(dot(at, from, columns)) / (length * length);
#pragma omp simd
        for (int64_t c = 0; c < columns; ++c) {
          to[n * columns + c] = from_float<T>(factor * (from[c] - along * at[c]));
        }
      }
    });
  });
}

}  // namespace tessera::cpu
