#include "core/ops/query_groups.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

/// out[i] = the sum of x[h × n + i] over the heads h.
template <typename T, typename Out>
void sum_heads(const T* x, int64_t heads, int64_t n, Out* out) {
  map_blocks(n, out, [=](int64_t i) {
    float sum = to_float(x[i]);
    for (int64_t h = 1; h < heads; ++h) sum += to_float(x[h * n + i]);
    return sum;
  });
}

/// y = the RMSNorm of x (n); returns rstd.
template <typename T>
float normalize(const T* x, const T* weight, int64_t n, float eps, T* y) {
  float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i) squares += to_float(x[i]) * to_float(x[i]);
  const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
  map_blocks(n, y, [=](int64_t i) { return to_float(x[i]) * rstd * to_float(weight[i]); });
  return rstd;
}

/// The gradient of normalize(), given that of y. Adds to dweight.
template <typename T>
void normalize_backward(const float* dy, const T* x, const T* weight, float rstd, int64_t n, T* dx,
                        float* dweight) {
  float along = 0.0f;
#pragma omp simd reduction(+ : along)
  for (int64_t i = 0; i < n; ++i) along += dy[i] * to_float(weight[i]) * (to_float(x[i]) * rstd);
  along /= static_cast<float>(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float norm = to_float(x[i]) * rstd;
    dx[i] = from_float<T>(rstd * (dy[i] * to_float(weight[i]) - norm * along));
    dweight[i] += dy[i] * norm;
  }
}

/// The sizes of grouped (tokens, groups, in_group + 2, d).
struct Groups {
  int64_t tokens, groups, in_group, d, heads;

  explicit Groups(const Tensor& grouped)
      : tokens(grouped.dim(0) * grouped.dim(1)),
        groups(grouped.dim(2)),
        in_group(grouped.dim(3) - 2),
        d(grouped.dim(4)),
        heads(groups * in_group) {}

  /// The first element of the queries of group `row`, of all tokens, in qkv.
  int64_t queries(int64_t row) const {
    return (row / groups * 3 * heads + row % groups * in_group) * d;
  }
};

}  // namespace

void repeat_key_values(const Tensor& grouped, Tensor qkv) {
  const Groups of(grouped);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const T* from = grouped.data<T>();
    T* to = qkv.data<T>();
    parallel_for(of.tokens, grain_for(3 * of.heads * of.d), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin * of.groups; row < end * of.groups; ++row) {
        const T* group = from + row * (of.in_group + 2) * of.d;
        T* queries = to + of.queries(row);
        std::copy_n(group, of.in_group * of.d, queries);
        for (int64_t part = 0; part < 2; ++part) {
          for (int64_t h = 0; h < of.in_group; ++h) {
            std::copy_n(group + (of.in_group + part) * of.d, of.d,
                        queries + ((part + 1) * of.heads + h) * of.d);
          }
        }
      }
    });
  });
}

void repeat_key_values_backward(const Tensor& dqkv, Tensor dgrouped) {
  const Groups of(dgrouped);
  dispatch_float(dqkv.dtype(), [&]<typename T>() {
    const T* from = dqkv.data<T>();
    T* to = dgrouped.data<T>();
    parallel_for(of.tokens, grain_for(3 * of.heads * of.d), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin * of.groups; row < end * of.groups; ++row) {
        T* group = to + row * (of.in_group + 2) * of.d;
        const T* queries = from + of.queries(row);
        std::copy_n(queries, of.in_group * of.d, group);
        for (int64_t part = 0; part < 2; ++part) {
          sum_heads(queries + (part + 1) * of.heads * of.d, of.in_group, of.d,
                    group + (of.in_group + part) * of.d);
        }
      }
    });
  });
}

void normalize_and_repeat(const Tensor& grouped, const QueryKeyNorm& norm, Tensor qkv,
                          Tensor rstd) {
  const Groups of(grouped);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const T *from = grouped.data<T>(), *query_weight = norm.query_weight.data<T>();
    const T* key_weight = norm.key_weight.data<T>();
    const float eps = norm.eps;
    T* to = qkv.data<T>();
    float* rstds = rstd.data<float>();
    parallel_for(of.tokens, grain_for(3 * of.heads * of.d), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin * of.groups; row < end * of.groups; ++row) {
        const T* group = from + row * (of.in_group + 2) * of.d;
        T *queries = to + of.queries(row), *keys = queries + of.heads * of.d;
        T* values = keys + of.heads * of.d;
        float* stats = rstds + row * (of.in_group + 1);
        for (int64_t h = 0; h < of.in_group; ++h) {
          stats[h] = normalize(group + h * of.d, query_weight, of.d, eps, queries + h * of.d);
        }
        const T* key = group + of.in_group * of.d;
        stats[of.in_group] = normalize(key, key_weight, of.d, eps, keys);
        for (int64_t h = 0; h < of.in_group; ++h) {
          if (h > 0) std::copy_n(keys, of.d, keys + h * of.d);
          std::copy_n(key + of.d, of.d, values + h * of.d);
        }
      }
    });
  });
}

void normalize_and_repeat_backward(const Tensor& dqkv, const Tensor& grouped,
                                   const QueryKeyNorm& norm, const Tensor& rstd, Tensor dgrouped,
                                   Tensor dquery_weight, Tensor dkey_weight,
                                   Accumulate accumulate) {
  const Groups of(grouped);
  const RowBlocks blocks(of.tokens * of.groups, 2 * of.d);
  dispatch_float(dqkv.dtype(), [&]<typename T>() {
    const T *from = dqkv.data<T>(), *xs = grouped.data<T>();
    const T *query_weight = norm.query_weight.data<T>(), *key_weight = norm.key_weight.data<T>();
    const float* rstds = rstd.data<float>();
    T* to = dgrouped.data<T>();
    const int64_t grain = grain_for(blocks.rows_per_block() * (3 * of.in_group) * of.d);
    parallel_for(blocks.count(), grain, [=, &blocks](int64_t begin, int64_t end) {
      std::vector<float> dy(static_cast<size_t>(of.d));
      for (int64_t block = begin; block < end; ++block) {
        float* sums = blocks.partial(block);
        std::fill_n(sums, 2 * of.d, 0.0f);
        const Range rows = blocks.rows(block);
        for (int64_t row = rows.begin; row < rows.end; ++row) {
          const int64_t at = row * (of.in_group + 2) * of.d;
          const T *x = xs + at, *dqueries = from + of.queries(row);
          const T *dkeys = dqueries + of.heads * of.d, *dvalues = dkeys + of.heads * of.d;
          const float* stats = rstds + row * (of.in_group + 1);
          T* dx = to + at;
          for (int64_t h = 0; h < of.in_group; ++h, x += of.d, dx += of.d) {
            sum_heads(dqueries + h * of.d, 1, of.d, dy.data());
            normalize_backward(dy.data(), x, query_weight, stats[h], of.d, dx, sums);
          }
          sum_heads(dkeys, of.in_group, of.d, dy.data());
          normalize_backward(dy.data(), x, key_weight, stats[of.in_group], of.d, dx, sums + of.d);
          sum_heads(dvalues, of.in_group, of.d, dx + of.d);
        }
      }
    });
  });
  blocks.add_up(0, of.d, accumulate, dquery_weight.data<float>());
  blocks.add_up(of.d, of.d, accumulate, dkey_weight.data<float>());
}

}  // namespace tessera::cpu
