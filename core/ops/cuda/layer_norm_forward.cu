#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/cuda/row_team.h"
#include "core/ops/cuda/branch_end.h"
#include "core/ops/device_ops.h"
#include "core/ops/layer_norm.h"

// Reads x and writes y, nothing else of that size: a row stays in the registers of its team between
// its two sums, E[x] and E[(x − E[x])²]. An RMS norm has no first sum: its mean is taken as 0. If x
// is the sum at the end of a branch, it is computed here and written too.
namespace tessera::cuda {
namespace {

constexpr int kThreads = 128;

/// Rows that exist in memory.
template <typename T>
struct Rows {
  const T* x;

  __device__ void begin() {}
  /// N elements from element i on; the first is in column `column`.
  template <int N>
  __device__ Pack<T, N> take(int64_t i, int64_t /*column*/) const {
    return load<N>(x + i);
  }
};

/// Rows that are sums at the end of a branch; the sums are stored.
template <typename T>
struct Sums {
  BranchEnd<T> end;
  T* sum;

  __device__ void begin() { end.begin(); }
  template <int N>
  __device__ Pack<T, N> take(int64_t i, int64_t column) const {
    const Pack<T, N> pack = end.template sum<N>(i, column);
    store(pack, sum + i);
    return pack;
  }
};

template <typename T>
struct Forward {
  const T *weight, *bias;
  float eps;
  int64_t rows, columns;
  T* y;
  float *means, *rstds;  ///< means: null in an RMS norm

  __device__ bool has_mean() const { return means != nullptr; }
  __device__ void keep(int64_t row, float mean, float rstd) const {
    if (has_mean()) means[row] = mean;
    rstds[row] = rstd;
  }
  __device__ float rstd(float squares) const {
    return 1.0f / sqrtf(squares / static_cast<float>(columns) + eps);
  }
};

/// Rows of up to K packs per thread of the team.
template <bool kWholeBlock, int K, typename Source, typename T>
__global__ void __launch_bounds__(kWholeBlock ? 1024 : kThreads)
    forward_kernel(Source source, Forward<T> f) {
  constexpr int N = kPackSize<T>;
  const RowTeam<kWholeBlock> team;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * team.count + team.index;
  if (row >= f.rows) return;
  const int packs = static_cast<int>(f.columns / N);
  const int64_t start = row * f.columns;
  source.begin();
  Pack<T, N> x[K] = {};
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int pack = team.thread + k * team.size;
    if (pack < packs) x[k] = source.template take<N>(start + pack * N, pack * N);
  }
  float mean = 0.0f;
  if (f.has_mean()) {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < K; ++k) {  // zero beyond the row
      for (int i = 0; i < N; ++i) sum += to_float(x[k].at[i]);
    }
    mean = team.sum(sum) / static_cast<float>(f.columns);
  }
  float squares = 0.0f;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (team.thread + k * team.size >= packs) continue;
    for (int i = 0; i < N; ++i) {
      const float centred = to_float(x[k].at[i]) - mean;
      squares = fmaf(centred, centred, squares);
    }
  }
  const float rstd = f.rstd(team.sum(squares));
  if (team.thread == 0) f.keep(row, mean, rstd);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int pack = team.thread + k * team.size;
    if (pack >= packs) continue;
    const Floats<N> weight = load_floats<N>(f.weight + pack * N);
    Floats<N> bias = {}, y;
    if (f.bias != nullptr) bias = load_floats<N>(f.bias + pack * N);
    for (int i = 0; i < N; ++i) {
      y.at[i] = fmaf((to_float(x[k].at[i]) - mean) * rstd, weight.at[i], bias.at[i]);
    }
    store_floats(y, f.y + start + pack * N);
  }
}

/// Rows of any length: a block reads its row three times, twice from the cache.
template <typename T>
__global__ void any_forward_kernel(const T* all, Forward<T> f) {
  const RowTeam<true> team;
  const int64_t row = blockIdx.x;
  const T* x = all + row * f.columns;
  float mean = 0.0f;
  if (f.has_mean()) {
    float sum = 0.0f;
    for (int64_t c = team.thread; c < f.columns; c += team.size) sum += to_float(x[c]);
    mean = team.sum(sum) / static_cast<float>(f.columns);
  }
  float squares = 0.0f;
  for (int64_t c = team.thread; c < f.columns; c += team.size) {
    const float centred = to_float(x[c]) - mean;
    squares = fmaf(centred, centred, squares);
  }
  const float rstd = f.rstd(team.sum(squares));
  if (team.thread == 0) f.keep(row, mean, rstd);
  for (int64_t c = team.thread; c < f.columns; c += team.size) {
    const float bias = f.bias == nullptr ? 0.0f : to_float(f.bias[c]);
    const float y = fmaf((to_float(x[c]) - mean) * rstd, to_float(f.weight[c]), bias);
    f.y[row * f.columns + c] = from_float<T>(y);
  }
}

template <bool kWholeBlock, int K, typename Source, typename T>
void run(const Source& source, const Forward<T>& f, int threads) {
  const int64_t rows_a_block = kWholeBlock ? 1 : threads / kWarpSize;
  launch("layer_norm_forward",
         {dim3(static_cast<unsigned>(ceil_div(f.rows, rows_a_block))),
          dim3(static_cast<unsigned>(threads))},
         forward_kernel<kWholeBlock, K, Source, T>, source, f);
}

constexpr int kMostPacks = 4;  // per thread of a block

/// Whether rows consist of packs and fit into a block's registers.
template <typename T>
bool takes_rows(const Forward<T>& f) {
  constexpr int N = kPackSize<T>;
  return f.columns % N == 0 && f.columns / N <= 1024 * kMostPacks && takes_packs<N>(f.y) &&
         takes_packs<N>(f.weight) && takes_packs<N>(f.bias);
}

/// Requires takes_rows() and aligned tensors of the source.
template <typename Source, typename T>
void normalise(const Source& source, const Forward<T>& f) {
  const int64_t packs = f.columns / kPackSize<T>;
  if (packs <= kWarpSize) return run<false, 1>(source, f, kThreads);
  if (packs <= 2 * kWarpSize) return run<false, 2>(source, f, kThreads);
  if (packs <= 4 * kWarpSize) return run<false, 4>(source, f, kThreads);
  if (packs <= 8 * kWarpSize) return run<false, 8>(source, f, kThreads);
  const int64_t threads = round_up(ceil_div(packs, kMostPacks), kWarpSize);
  run<true, kMostPacks>(source, f, static_cast<int>(threads));
}

template <typename T>
Forward<T> forward(const Tensor& weight, const Tensor& bias, float eps, const Tensor& y,
                   const Tensor& mean, const Tensor& rstd) {
  return {weight.data<T>(),
          bias.defined() ? bias.data<T>() : nullptr,
          eps,
          rstd.numel(),
          y.dim(-1),
          y.data<T>(),
          mean.defined() ? mean.data<float>() : nullptr,
          rstd.data<float>()};
}

}  // namespace

void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps,
                        Tensor y, Tensor mean, Tensor rstd) {
  if (x.numel() == 0) return;
  dispatch_float(x.dtype(), [&]<typename T>() {
    const Forward<T> f = forward<T>(weight, bias, eps, y, mean, rstd);
    const T* rows = x.data<T>();
    if (takes_rows(f) && takes_packs<kPackSize<T>>(rows)) return normalise(Rows<T>{rows}, f);
    const auto threads = static_cast<unsigned>(round_up(std::min<int64_t>(f.columns, 256), 32));
    launch("layer_norm_forward", {dim3(static_cast<unsigned>(f.rows)), dim3(threads)},
           any_forward_kernel<T>, rows, f);
  });
}

void bias_dropout_add_norm(const Tensor& x, const Tensor& bias, const Tensor& residual,
                           const Dropout& dropout, Tensor sum, const Tensor& weight,
                           const Tensor& norm_bias, float eps, Tensor y, Tensor mean, Tensor rstd) {
  if (x.numel() == 0) return;
  dispatch_float(x.dtype(), [&]<typename T>() {
    constexpr int N = kPackSize<T>;
    const Forward<T> f = forward<T>(weight, norm_bias, eps, y, mean, rstd);
    const Sums<T> sums{branch_end<T>(x, bias, residual, dropout), sum.data<T>()};
    const bool packs = takes_packs<N>(sums.end.branch) && takes_packs<N>(sums.end.bias) &&
                       takes_packs<N>(sums.end.residual) && takes_packs<N>(sums.sum);
    if (packs && takes_rows(f)) return normalise(sums, f);
    cuda::bias_dropout_add(x, bias, residual, dropout, sum);
    cuda::layer_norm_forward(sum, weight, norm_bias, eps, y, mean, rstd);
  });
}

}  // namespace tessera::cuda
