#include "core/ops/query_groups.h"

#include <algorithm>
#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

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
void normalize_backward(const T* dy, const T* x, const T* weight, float rstd, int64_t n, T* dx,
                        float* dweight) {
  float along = 0.0f;
#pragma omp simd reduction(+ : along)
  for (int64_t i = 0; i < n; ++i) {
    along += to_float(dy[i]) * to_float(weight[i]) * (to_float(x[i]) * rstd);
  }
  along /= static_cast<float>(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float norm = to_float(x[i]) * rstd;
    dx[i] = from_float<T>(rstd * (to_float(dy[i]) * to_float(weight[i]) - norm * along));
    dweight[i] += to_float(dy[i]) * norm;
  }
}

/// The sizes of grouped (tokens, groups, in_group + 2, d).
struct Groups {
  int64_t tokens, groups, in_group, d;

  explicit Groups(const Tensor& grouped)
      : tokens(grouped.dim(0) * grouped.dim(1)),
        groups(grouped.dim(2)),
        in_group(grouped.dim(3) - 2),
        d(grouped.dim(4)) {}

  int64_t row_elements() const { return (in_group + 2) * d; }
  /// Places in qkv of the queries, the key and the value of group `row`, over all tokens.
  struct Places {
    int64_t queries, key, value;
  };
  Places places(int64_t row) const {
    const int64_t token = row / groups * groups * row_elements(), group = row % groups;
    const int64_t keys = token + groups * in_group * d;
    return {token + group * in_group * d, keys + group * d, keys + (groups + group) * d};
  }
};

/// Calls body(row, places) for each group of each token, in parallel.
template <typename Body>
void for_each_group(const Groups& of, const Body& body) {
  parallel_for(of.tokens, grain_for(of.groups * of.row_elements()),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin * of.groups; row < end * of.groups; ++row)
                   body(row, of.places(row));
               });
}

}  // namespace

void split_groups(const Tensor& grouped, Tensor qkv) {
  const Groups of(grouped);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const T* from = grouped.data<T>();
    T* to = qkv.data<T>();
    for_each_group(of, [=](int64_t row, const Groups::Places& places) {
      const T *group = from + row * of.row_elements(), *key = group + of.in_group * of.d;
      std::copy_n(group, of.in_group * of.d, to + places.queries);
      std::copy_n(key, of.d, to + places.key);
      std::copy_n(key + of.d, of.d, to + places.value);
    });
  });
}

void split_groups_backward(const Tensor& dqkv, Tensor dgrouped) {
  const Groups of(dgrouped);
  dispatch_float(dqkv.dtype(), [&]<typename T>() {
    const T* from = dqkv.data<T>();
    T* to = dgrouped.data<T>();
    for_each_group(of, [=](int64_t row, const Groups::Places& places) {
      T *group = to + row * of.row_elements(), *key = group + of.in_group * of.d;
      std::copy_n(from + places.queries, of.in_group * of.d, group);
      std::copy_n(from + places.key, of.d, key);
      std::copy_n(from + places.value, of.d, key + of.d);
    });
  });
}

void normalize_and_split(const Tensor& grouped, const QueryKeyNorm& norm, Tensor qkv, Tensor rstd) {
  const Groups of(grouped);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const T *from = grouped.data<T>(), *query_weight = norm.query_weight.data<T>();
    const T* key_weight = norm.key_weight.data<T>();
    const float eps = norm.eps;
    T* to = qkv.data<T>();
    float* rstds = rstd.data<float>();
    for_each_group(of, [=](int64_t row, const Groups::Places& places) {
      const T *group = from + row * of.row_elements(), *key = group + of.in_group * of.d;
      float* stats = rstds + row * (of.in_group + 1);
      for (int64_t h = 0; h < of.in_group; ++h) {
        T* query = to + places.queries + h * of.d;
        stats[h] = normalize(group + h * of.d, query_weight, of.d, eps, query);
      }
      stats[of.in_group] = normalize(key, key_weight, of.d, eps, to + places.key);
      std::copy_n(key + of.d, of.d, to + places.value);
    });
  });
}

void normalize_and_split_backward(const Tensor& dqkv, const Tensor& grouped,
                                  const QueryKeyNorm& norm, const Tensor& rstd, Tensor dgrouped,
                                  Tensor dquery_weight, Tensor dkey_weight, Accumulate accumulate) {
  const Groups of(grouped);
  const RowBlocks blocks(of.tokens * of.groups, 2 * of.d);
  dispatch_float(dqkv.dtype(), [&]<typename T>() {
    const T *from = dqkv.data<T>(), *xs = grouped.data<T>();
    const T *query_weight = norm.query_weight.data<T>(), *key_weight = norm.key_weight.data<T>();
    const float* rstds = rstd.data<float>();
    T* to = dgrouped.data<T>();
    const int64_t grain = grain_for(blocks.rows_per_block() * of.row_elements());
    parallel_for(blocks.count(), grain, [=, &blocks](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        float* sums = blocks.partial(block);
        std::fill_n(sums, 2 * of.d, 0.0f);
        const Range rows = blocks.rows(block);
        for (int64_t row = rows.begin; row < rows.end; ++row) {
          const int64_t at = row * of.row_elements();
          const Groups::Places places = of.places(row);
          const T *x = xs + at, *dqueries = from + places.queries;
          const float* stats = rstds + row * (of.in_group + 1);
          T* dx = to + at;
          for (int64_t h = 0; h < of.in_group; ++h, x += of.d, dx += of.d) {
            normalize_backward(dqueries + h * of.d, x, query_weight, stats[h], of.d, dx, sums);
          }
          normalize_backward(from + places.key, x, key_weight, stats[of.in_group], of.d, dx,
                             sums + of.d);
          std::copy_n(from + places.value, of.d, dx + of.d);
        }
      }
    });
  });
  blocks.add_up(0, of.d, accumulate, dquery_weight.data<float>());
  blocks.add_up(of.d, of.d, accumulate, dkey_weight.data<float>());
}

}  // namespace tessera::cpu
