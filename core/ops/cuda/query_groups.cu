#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/cuda/rows.h"
#include "core/ops/device_ops.h"
#include "core/ops/query_groups.h"

namespace tessera::cuda {
namespace {

/// grouped (tokens, groups, in_group + 2, d) and qkv (tokens, 3, groups × in_group, d).
struct Groups {
  int64_t tokens, groups, in_group, d;

  explicit Groups(const Tensor& grouped)
      : tokens(grouped.dim(0) * grouped.dim(1)),
        groups(grouped.dim(2)),
        in_group(grouped.dim(3) - 2),
        d(grouped.dim(4)) {}
  __host__ __device__ int64_t heads() const { return groups * in_group; }
};

// A row is a query, key or value of a token's head in qkv.
template <int N, typename T>
__global__ void repeat_kernel(const T* grouped, Groups of, T* qkv) {
  const int64_t row = row_of_thread(), heads = of.heads();
  if (row >= of.tokens * 3 * heads) return;
  const int64_t head = row % heads, part = row / heads % 3, token = row / (3 * heads);
  const int64_t slot = part == 0 ? head % of.in_group : of.in_group + part - 1;
  const int64_t group = token * of.groups + head / of.in_group;
  const T* from = grouped + (group * (of.in_group + 2) + slot) * of.d;
  for (int64_t i = threadIdx.x * N; i < of.d; i += static_cast<int64_t>(blockDim.x) * N) {
    store(load<N>(from + i), qkv + row * of.d + i);
  }
}

// A row is a query, key or value of a group.
template <int N, typename T>
__global__ void sum_kernel(const T* dqkv, Groups of, T* dgrouped) {
  const int64_t row = row_of_thread(), slots = of.in_group + 2, heads = of.heads();
  if (row >= of.tokens * of.groups * slots) return;
  const int64_t slot = row % slots, group = row / slots % of.groups;
  const int64_t token = row / (slots * of.groups);
  const bool is_query = slot < of.in_group;
  const int64_t part = is_query ? 0 : slot - of.in_group + 1;
  const int64_t head = group * of.in_group + (is_query ? slot : 0);
  const T* from = dqkv + ((token * 3 + part) * heads + head) * of.d;
  for (int64_t i = threadIdx.x * N; i < of.d; i += static_cast<int64_t>(blockDim.x) * N) {
    Floats<N> sum = load_floats<N>(from + i);
    for (int64_t h = 1; !is_query && h < of.in_group; ++h) {
      const Floats<N> more = load_floats<N>(from + h * of.d + i);
      for (int j = 0; j < N; ++j) sum.at[j] += more.at[j];
    }
    store_floats(sum, dgrouped + row * of.d + i);
  }
}

}  // namespace

void repeat_key_values(const Tensor& grouped, Tensor qkv) {
  if (qkv.numel() == 0) return;
  const Groups of(grouped);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    dispatch_pack<T>(of.d, {&grouped, &qkv}, [&]<int N>() {
      launch("repeat_key_values", rows_shape(of.tokens * 3 * of.heads(), of.d / N),
             repeat_kernel<N, T>, grouped.data<T>(), of, qkv.data<T>());
    });
  });
}

void repeat_key_values_backward(const Tensor& dqkv, Tensor dgrouped) {
  if (dqkv.numel() == 0) return;
  const Groups of(dgrouped);
  dispatch_float(dqkv.dtype(), [&]<typename T>() {
    dispatch_pack<T>(of.d, {&dqkv, &dgrouped}, [&]<int N>() {
      launch("repeat_key_values_backward",
             rows_shape(of.tokens * of.groups * (of.in_group + 2), of.d / N), sum_kernel<N, T>,
             dqkv.data<T>(), of, dgrouped.data<T>());
    });
  });
}

}  // namespace tessera::cuda
