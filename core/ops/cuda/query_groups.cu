#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/cuda/row_team.h"
#include "core/cuda/rows.h"
#include "core/cuda/workspace.h"
#include "core/ops/cuda/column_sums.h"
#include "core/ops/device_ops.h"
#include "core/ops/query_groups.h"

namespace tessera::cuda {
namespace {

/// grouped (tokens, groups, in_group + 2, d) and qkv (tokens, groups × in_group + 2 × groups, d).
struct Groups {
  int64_t tokens, groups, in_group, d;

  explicit Groups(const Tensor& grouped)
      : tokens(grouped.dim(0) * grouped.dim(1)),
        groups(grouped.dim(2)),
        in_group(grouped.dim(3) - 2),
        d(grouped.dim(4)) {}
  int64_t rows() const { return tokens * groups * (in_group + 2); }
};

/// The place in qkv of a row of grouped, (token, group, slot).
struct Slot {
  int64_t group;  ///< of all tokens
  int64_t index;  ///< in the group
  int64_t place;  ///< in elements of qkv
  bool is_query, is_value;

  __device__ Slot(const Groups& of, int64_t row) {
    const int64_t slots = of.in_group + 2;
    index = row % slots;
    group = row / slots;
    is_query = index < of.in_group;
    is_value = index == of.in_group + 1;
    const int64_t g = group % of.groups, first = group / of.groups * of.groups * slots;
    const int64_t head = is_query ? g * of.in_group + index : of.groups * index + g;
    place = (first + head) * of.d;
  }
};

// A row is a query, key or value of a group.
template <int N, typename T>
__global__ void split_kernel(const T* grouped, Groups of, T* qkv) {
  const int64_t row = row_of_thread();
  if (row >= of.tokens * of.groups * (of.in_group + 2)) return;
  const Slot slot(of, row);
  for (int64_t i = threadIdx.x * N; i < of.d; i += static_cast<int64_t>(blockDim.x) * N) {
    store(load<N>(grouped + row * of.d + i), qkv + slot.place + i);
  }
}

template <int N, typename T>
__global__ void join_kernel(const T* dqkv, Groups of, T* dgrouped) {
  const int64_t row = row_of_thread();
  if (row >= of.tokens * of.groups * (of.in_group + 2)) return;
  const Slot slot(of, row);
  for (int64_t i = threadIdx.x * N; i < of.d; i += static_cast<int64_t>(blockDim.x) * N) {
    store(load<N>(dqkv + slot.place + i), dgrouped + row * of.d + i);
  }
}

// With QK norm: a warp per query, key or value of a group.
constexpr int kGroupThreads = 128;

template <int N, typename T>
__global__ void norm_kernel(const T* grouped, Groups of, const T* query_weight, const T* key_weight,
                            float eps, T* qkv, float* rstds) {
  const RowTeam<false> team;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * team.count + team.index;
  if (row >= of.tokens * of.groups * (of.in_group + 2)) return;
  const Slot slot(of, row);
  const T *x = grouped + row * of.d, *weight = slot.is_query ? query_weight : key_weight;
  float rstd = 1.0f;
  if (!slot.is_value) {
    float squares = 0.0f;
    for (int64_t i = team.thread * N; i < of.d; i += kWarpSize * N) {
      const Floats<N> pack = load_floats<N>(x + i);
      for (int j = 0; j < N; ++j) squares = fmaf(pack.at[j], pack.at[j], squares);
    }
    rstd = 1.0f / sqrtf(team.sum(squares) / static_cast<float>(of.d) + eps);
    if (team.thread == 0) rstds[slot.group * (of.in_group + 1) + slot.index] = rstd;
  }
  for (int64_t i = team.thread * N; i < of.d; i += kWarpSize * N) {
    Floats<N> pack = load_floats<N>(x + i);
    if (!slot.is_value) {
      const Floats<N> w = load_floats<N>(weight + i);
      for (int j = 0; j < N; ++j) pack.at[j] = pack.at[j] * rstd * w.at[j];
    }
    store_floats(pack, qkv + slot.place + i);
  }
}

template <int N, typename T>
__global__ void norm_backward_kernel(const T* dqkv, const T* grouped, Groups of,
                                     const T* query_weight, const T* key_weight, const float* rstds,
                                     T* dgrouped) {
  const RowTeam<false> team;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * team.count + team.index;
  if (row >= of.tokens * of.groups * (of.in_group + 2)) return;
  const Slot slot(of, row);
  const T *x = grouped + row * of.d, *weight = slot.is_query ? query_weight : key_weight;
  float rstd = 0.0f, along = 0.0f;
  if (!slot.is_value) {
    rstd = rstds[slot.group * (of.in_group + 1) + slot.index];
    for (int64_t i = team.thread * N; i < of.d; i += kWarpSize * N) {
      const Floats<N> dy = load_floats<N>(dqkv + slot.place + i), w = load_floats<N>(weight + i);
      const Floats<N> pack = load_floats<N>(x + i);
      for (int j = 0; j < N; ++j) along = fmaf(dy.at[j] * w.at[j], pack.at[j] * rstd, along);
    }
    along = team.sum(along) / static_cast<float>(of.d);
  }
  for (int64_t i = team.thread * N; i < of.d; i += kWarpSize * N) {
    Floats<N> dx = load_floats<N>(dqkv + slot.place + i);
    if (!slot.is_value) {
      const Floats<N> w = load_floats<N>(weight + i), pack = load_floats<N>(x + i);
      for (int j = 0; j < N; ++j) {
        dx.at[j] = rstd * (dx.at[j] * w.at[j] - pack.at[j] * rstd * along);
      }
    }
    store_floats(dx, dgrouped + row * of.d + i);
  }
}

/// A block sums 32 columns of the gradients of both weights over a piece of the groups.
template <typename T>
__global__ void norm_weights_kernel(const T* dqkv, const T* grouped, Groups of, const float* rstds,
                                    RowPieces pieces, float* partials) {
  constexpr int kGroupWarps = kGroupThreads / kWarpSize;
  __shared__ float2 totals[kGroupWarps][kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarpSize + lane;
  const int64_t begin = blockIdx.y * pieces.per_piece;
  const int64_t end = min(pieces.rows, begin + pieces.per_piece);
  float2 total = make_float2(0.0f, 0.0f);
  for (int64_t group = begin + warp; column < of.d && group < end; group += kGroupWarps) {
    for (int64_t index = 0; index <= of.in_group; ++index) {
      const int64_t row = group * (of.in_group + 2) + index;
      const Slot slot(of, row);
      const float norm =
          to_float(grouped[row * of.d + column]) * rstds[group * (of.in_group + 1) + index];
      const float dy = to_float(dqkv[slot.place + column]);
      float& sum = slot.is_query ? total.x : total.y;
      sum = fmaf(dy, norm, sum);
    }
  }
  totals[warp][lane] = total;
  __syncthreads();
  if (warp != 0 || column >= of.d) return;
  for (int w = 1; w < kGroupWarps; ++w) {
    total = make_float2(total.x + totals[w][lane].x, total.y + totals[w][lane].y);
  }
  float* partial = partials + blockIdx.y * 2 * of.d + column;
  partial[0] = total.x;
  partial[of.d] = total.y;
}

LaunchShape warp_per_slot(const Groups& of) {
  return {dim3(static_cast<unsigned>(ceil_div(of.rows(), kGroupThreads / kWarpSize))),
          dim3(kGroupThreads)};
}

}  // namespace

void normalize_and_split(const Tensor& grouped, const QueryKeyNorm& norm, Tensor qkv, Tensor rstd) {
  if (qkv.numel() == 0) return;
  const Groups of(grouped);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    dispatch_pack<T>(of.d, {&grouped, &qkv, &norm.query_weight, &norm.key_weight}, [&]<int N>() {
      launch("normalize_and_split", warp_per_slot(of), norm_kernel<N, T>, grouped.data<T>(), of,
             norm.query_weight.data<T>(), norm.key_weight.data<T>(), norm.eps, qkv.data<T>(),
             rstd.data<float>());
    });
  });
}

void normalize_and_split_backward(const Tensor& dqkv, const Tensor& grouped,
                                  const QueryKeyNorm& norm, const Tensor& rstd, Tensor dgrouped,
                                  Tensor dquery_weight, Tensor dkey_weight, Accumulate accumulate) {
  constexpr const char* kName = "normalize_and_split_backward";
  const Groups of(grouped);
  const int64_t tiles = ceil_div(of.d, kWarpSize);
  const RowPieces pieces(of.tokens * of.groups, std::clamp<int64_t>(1024 / tiles, 1, 256), 64);
  const auto elements = static_cast<size_t>(pieces.count() * 2 * of.d);
  auto* partials = static_cast<float*>(workspace(elements * sizeof(float)));
  dispatch_float(dqkv.dtype(), [&]<typename T>() {
    const T *dy = dqkv.data<T>(), *x = grouped.data<T>();
    launch(kName,
           {dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(pieces.count())),
            dim3(kGroupThreads)},
           norm_weights_kernel<T>, dy, x, of, rstd.data<float>(), pieces, partials);
    const std::initializer_list<const Tensor*> tensors = {&dqkv, &grouped, &dgrouped,
                                                          &norm.query_weight, &norm.key_weight};
    dispatch_pack<T>(of.d, tensors, [&]<int N>() {
      launch(kName, warp_per_slot(of), norm_backward_kernel<N, T>, dy, x, of,
             norm.query_weight.data<T>(), norm.key_weight.data<T>(), rstd.data<float>(),
             dgrouped.data<T>());
    });
  });
  add_pieces(partials, pieces.count(), 2, of.d, accumulate, dquery_weight.data<float>(),
             dkey_weight.data<float>());
}

void split_groups(const Tensor& grouped, Tensor qkv) {
  if (qkv.numel() == 0) return;
  const Groups of(grouped);
  dispatch_float(qkv.dtype(), [&]<typename T>() {
    dispatch_pack<T>(of.d, {&grouped, &qkv}, [&]<int N>() {
      launch("split_groups", rows_shape(of.rows(), of.d / N), split_kernel<N, T>, grouped.data<T>(),
             of, qkv.data<T>());
    });
  });
}

void split_groups_backward(const Tensor& dqkv, Tensor dgrouped) {
  if (dqkv.numel() == 0) return;
  const Groups of(dgrouped);
  dispatch_float(dqkv.dtype(), [&]<typename T>() {
    dispatch_pack<T>(of.d, {&dqkv, &dgrouped}, [&]<int N>() {
      launch("split_groups_backward", rows_shape(of.rows(), of.d / N), join_kernel<N, T>,
             dqkv.data<T>(), of, dgrouped.data<T>());
    });
  });
}

}  // namespace tessera::cuda
