#include "core/ops/query_groups.h"

#include <algorithm>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

/// out[i] = the sum of x[h × n + i] over the heads h.
template <typename T>
void sum_heads(const T* x, int64_t heads, int64_t n, T* out) {
  map_blocks(n, out, [=](int64_t i) {
    float sum = to_float(x[i]);
    for (int64_t h = 1; h < heads; ++h) sum += to_float(x[h * n + i]);
    return sum;
  });
}

}  // namespace

void repeat_key_values(const Tensor& grouped, Tensor qkv) {
  const int64_t tokens = grouped.dim(0) * grouped.dim(1), groups = grouped.dim(2);
  const int64_t in_group = grouped.dim(3) - 2, d = grouped.dim(4), heads = groups * in_group;
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    const T* from = grouped.data<T>();
    T* to = qkv.data<T>();
    parallel_for(tokens, grain_for(3 * heads * d), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin * groups; row < end * groups; ++row) {
        const T* group = from + row * (in_group + 2) * d;
        const int64_t token = row / groups, head = row % groups * in_group;
        T* queries = to + (token * 3 * heads + head) * d;
        std::copy_n(group, in_group * d, queries);
        for (int64_t part = 0; part < 2; ++part) {
          for (int64_t h = 0; h < in_group; ++h) {
            std::copy_n(group + (in_group + part) * d, d, queries + ((part + 1) * heads + h) * d);
          }
        }
      }
    });
  });
}

void repeat_key_values_backward(const Tensor& dqkv, Tensor dgrouped) {
  const int64_t tokens = dgrouped.dim(0) * dgrouped.dim(1), groups = dgrouped.dim(2);
  const int64_t in_group = dgrouped.dim(3) - 2, d = dgrouped.dim(4), heads = groups * in_group;
  dispatch_float(dqkv.dtype(), [&]<typename T>() {
    const T* from = dqkv.data<T>();
    T* to = dgrouped.data<T>();
    parallel_for(tokens, grain_for(3 * heads * d), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin * groups; row < end * groups; ++row) {
        T* group = to + row * (in_group + 2) * d;
        const int64_t token = row / groups, head = row % groups * in_group;
        const T* queries = from + (token * 3 * heads + head) * d;
        std::copy_n(queries, in_group * d, group);
        for (int64_t part = 0; part < 2; ++part) {
          sum_heads(queries + (part + 1) * heads * d, in_group, d, group + (in_group + part) * d);
        }
      }
    });
  });
}

}  // namespace tessera::cpu
