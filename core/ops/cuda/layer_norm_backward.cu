#include "core/cuda/async_copies.h"
#include "core/cuda/dynamic_shared.h"
#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/cuda/row_team.h"
#include "core/cuda/runtime.h"
#include "core/cuda/workspace.h"
#include "core/ops/cuda/column_sums.h"
#include "core/ops/device_ops.h"
#include "core/ops/layer_norm.h"

// One pass over dy, x and residual computes dx and, in registers, a piece of the sums over rows for
// dweight and dbias: 8 bytes per element in bf16 with the residual. While a row is processed, the
// team's next one is copied to shared memory.
namespace tessera::cuda {
namespace {

constexpr int kWarpTeams = 4;  ///< warps per block if a warp processes a row
constexpr int kMostThreads = 512;

template <typename T>
struct Backward {
  const T *dy, *x, *weight;
  const float *means, *rstds;  ///< means: null in an RMS norm
  const T* residual;
  const T* addend;  ///< to dy; may be null
  T* dx;
  int64_t columns;
  RowPieces pieces;
  float* partials;  ///< (pieces, 2, C): dweight, then dbias

  __device__ float mean(int64_t row) const { return means == nullptr ? 0.0f : means[row]; }
  /// The means over a row from its sums of dy·w, which an RMS norm ignores, and of dy·w·x̂.
  __device__ float2 row_means(float2 sums) const {
    const auto n = static_cast<float>(columns);
    return make_float2(means == nullptr ? 0.0f : sums.x / n, sums.y / n);
  }
  /// N elements of dy + addend, rounded like the result of add(), from `first` and, if there is an
  /// addend, `second` on.
  template <int N>
  __device__ Pack<T, N> gradient(const T* first, const T* second) const {
    if (addend == nullptr) return load<N>(first);
    Floats<N> sum = load_floats<N>(first);
    const Floats<N> more = load_floats<N>(second);
    for (int i = 0; i < N; ++i) sum.at[i] += more.at[i];
    return round_to<T>(sum);
  }
  __device__ T gradient(int64_t at) const {
    return gradient<1>(dy + at, addend == nullptr ? nullptr : addend + at).at[0];
  }
};

/// A thread's packs of its team's next row, in shared memory that no other thread accesses, so that
/// no barrier is needed. A pack is read before the next one is copied to its place. The longest
/// rows are read from global memory, because registers are short.
template <bool kWholeBlock, int K, typename T>
class NextRow {
 public:
  static constexpr bool kCopies = !kWholeBlock || K < 4;
  static constexpr int N = kPackSize<T>;
  static_assert(N * sizeof(T) == 16);

  __device__ explicit NextRow(T* memory) : memory_(memory) {}

  static size_t bytes(const Backward<T>& b, int64_t threads) {
    if (!kCopies) return 0;
    const int tensors = 2 + (b.residual != nullptr ? 1 : 0) + (b.addend != nullptr ? 1 : 0);
    return static_cast<size_t>(tensors * K * threads * 16);
  }

  /// Starts to copy pack k of dy (0), x (1), the residual (2) or an addend.
  __device__ void start(int tensor, int k, const T* from) {
    if constexpr (kCopies) copies_.start(place(tensor, k), from, true);
  }
  /// The copy of what was started from `from` + `at`, or that itself; null if `from` is.
  __device__ const T* pack(int tensor, int k, const T* from, int64_t at) const {
    if (from == nullptr) return nullptr;
    return kCopies ? place(tensor, k) : from + at;
  }
  __device__ void wait() { copies_.wait(); }

 private:
  __device__ T* place(int tensor, int k) const {
    const int threads = kWholeBlock ? static_cast<int>(blockDim.x) : kWarpTeams * kWarpSize;
    return memory_ + ((tensor * K + k) * threads + static_cast<int>(threadIdx.x)) * N;
  }

  T* memory_;
  AsyncCopies copies_;
};

/// Σ dy·w and Σ dy·w·x̂ of a row. The block alternates between slots, so one barrier per row is
/// enough.
template <bool kWholeBlock>
__device__ float2 row_sums(const RowTeam<kWholeBlock>& team, float2 x, int turn) {
  x = make_float2(warp_sum(x.x), warp_sum(x.y));
  if constexpr (kWholeBlock) {
    __shared__ float2 slots[2][kWarpSize];
    const int lane = team.thread % kWarpSize, warps = team.size / kWarpSize;
    if (lane == 0) slots[turn][team.thread / kWarpSize] = x;
    __syncthreads();
    x = lane < warps ? slots[turn][lane] : make_float2(0.0f, 0.0f);
    x = make_float2(warp_sum(x.x), warp_sum(x.y));
  }
  return x;
}

/// The sums of a thread's columns, kept from row to row.
template <int K, int N>
struct Sums {
  Floats<N> dweight[K] = {}, dbias[K] = {};
};

/// Stores a block's sums, after adding those of its warps in order.
template <bool kWholeBlock, int K, int N>
__device__ void store_sums(const RowTeam<kWholeBlock>& team, const Sums<K, N>& sums, int columns,
                           float* partial) {
  float* total = kWholeBlock ? partial : dynamic_shared<float>();
  for (int turn = 0; turn < team.count; ++turn) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int column = (team.thread + k * team.size) * N;
      if (turn != team.index || column >= columns) continue;
      for (int i = 0; i < N; ++i) {
        float *w = total + column + i, *b = w + columns;
        *w = turn == 0 ? sums.dweight[k].at[i] : *w + sums.dweight[k].at[i];
        *b = turn == 0 ? sums.dbias[k].at[i] : *b + sums.dbias[k].at[i];
      }
    }
    if constexpr (!kWholeBlock) __syncthreads();
  }
  if constexpr (!kWholeBlock) {
    const int threads = static_cast<int>(blockDim.x);
    for (int c = static_cast<int>(threadIdx.x); c < 2 * columns; c += threads) {
      partial[c] = total[c];
    }
  }
}

/// The number of blocks of warps that an SM should hold at a time, as far as registers allow.
constexpr int resident_blocks(int packs) { return packs < 4 ? 4 : 3; }

/// Rows of up to K packs per thread of the team. A block processes a piece of the rows.
template <bool kWholeBlock, int K, typename T>
__global__ void __launch_bounds__(kWholeBlock ? kMostThreads : kWarpTeams* kWarpSize,
                                  kWholeBlock ? 1 : resident_blocks(K))
    backward_kernel(Backward<T> b) {
  constexpr int N = kPackSize<T>;
  constexpr int kDy = 0, kX = 1, kResidual = 2;
  const RowTeam<kWholeBlock> team;
  const int columns = static_cast<int>(b.columns), packs = columns / N;
  const int addend = b.residual != nullptr ? 3 : 2;
  constexpr int kTeams = kWholeBlock ? 1 : kWarpTeams;
  const int64_t begin = blockIdx.x * b.pieces.per_piece;
  const int64_t end = min(b.pieces.rows, begin + b.pieces.per_piece);
  // Behind the floats of store_sums().
  NextRow<kWholeBlock, K, T> next(
      reinterpret_cast<T*>(dynamic_shared<float>() + (kWholeBlock ? 0 : 2 * columns)));
  const auto for_each_pack = [&](auto&& work) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int pack = team.thread + k * team.size;
      if (pack < packs) work(k, pack * N);
    }
  };
  const auto start_gradients = [&](int64_t row) {
    if (row >= end) return;
    for_each_pack([&](int k, int column) {
      const int64_t at = row * b.columns + column;
      next.start(kDy, k, b.dy + at);
      next.start(kX, k, b.x + at);
      if (b.addend != nullptr) next.start(addend, k, b.addend + at);
    });
  };
  const auto start_residual = [&](int64_t row) {
    if (row >= end || b.residual == nullptr) return;
    for_each_pack([&](int k, int column) {
      next.start(kResidual, k, b.residual + row * b.columns + column);
    });
  };
  start_gradients(begin + team.index);
  start_residual(begin + team.index);
  Sums<K, N> sums;
  int turn = 0;
  for (int64_t row = begin + team.index; row < end; row += kTeams, turn ^= 1) {
    next.wait();
    Pack<T, N> dy[K] = {}, x[K] = {};
    const int64_t start = row * b.columns;
    for_each_pack([&](int k, int column) {
      const int64_t at = start + column;
      dy[k] =
          b.template gradient<N>(next.pack(kDy, k, b.dy, at), next.pack(addend, k, b.addend, at));
      x[k] = load<N>(next.pack(kX, k, b.x, at));
    });
    const float mean = b.mean(row), rstd = b.rstds[row];
    float2 p = make_float2(0.0f, 0.0f);
    for_each_pack([&](int k, int column) {
      const Floats<N> weight = load_floats<N>(b.weight + column);
      for (int i = 0; i < N; ++i) {
        const float g = to_float(dy[k].at[i]), norm = (to_float(x[k].at[i]) - mean) * rstd;
        const float dnorm = g * weight.at[i];
        p.x += dnorm;
        p.y = fmaf(dnorm, norm, p.y);
        sums.dweight[k].at[i] = fmaf(g, norm, sums.dweight[k].at[i]);
        sums.dbias[k].at[i] += g;
      }
    });
    start_gradients(row + kTeams);
    p = b.row_means(row_sums(team, p, turn));
    for_each_pack([&](int k, int column) {
      const Floats<N> weight = load_floats<N>(b.weight + column);
      Floats<N> dx = {};
      if (b.residual != nullptr) {
        dx = load_floats<N>(next.pack(kResidual, k, b.residual, start + column));
      }
      for (int i = 0; i < N; ++i) {
        const float norm = (to_float(x[k].at[i]) - mean) * rstd;
        const float dnorm = to_float(dy[k].at[i]) * weight.at[i];
        dx.at[i] = fmaf(rstd, dnorm - p.x - norm * p.y, dx.at[i]);
      }
      store_floats(dx, b.dx + start + column);
    });
    start_residual(row + kTeams);
  }
  store_sums(team, sums, columns, b.partials + blockIdx.x * 2 * b.columns);
}

// --- rows of any length: first the sums over rows, since dx may overwrite dy, then dx ------------
constexpr int kThreads = 256;

/// A block sums 32 columns of a piece of the rows.
template <typename T>
__global__ void any_columns_kernel(Backward<T> b) {
  constexpr int kWarps = kThreads / kWarpSize;
  __shared__ float2 totals[kWarps][kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarpSize + lane;
  const int64_t begin = blockIdx.y * b.pieces.per_piece;
  const int64_t end = min(b.pieces.rows, begin + b.pieces.per_piece);
  float2 total = make_float2(0.0f, 0.0f);
  for (int64_t row = begin + warp; column < b.columns && row < end; row += kWarps) {
    const float g = to_float(b.gradient(row * b.columns + column));
    const float norm = (to_float(b.x[row * b.columns + column]) - b.mean(row)) * b.rstds[row];
    total = make_float2(fmaf(g, norm, total.x), total.y + g);
  }
  totals[warp][lane] = total;
  __syncthreads();
  if (warp != 0 || column >= b.columns) return;
  for (int w = 1; w < kWarps; ++w) {
    total = make_float2(total.x + totals[w][lane].x, total.y + totals[w][lane].y);
  }
  float* partial = b.partials + blockIdx.y * 2 * b.columns + column;
  partial[0] = total.x;
  partial[b.columns] = total.y;
}

template <typename T>
__global__ void any_rows_kernel(Backward<T> b) {
  const RowTeam<true> team;
  const int64_t row = blockIdx.x, start = row * b.columns;
  const float mean = b.mean(row), rstd = b.rstds[row];
  float2 p = make_float2(0.0f, 0.0f);
  for (int64_t c = team.thread; c < b.columns; c += team.size) {
    const float dnorm = to_float(b.gradient(start + c)) * to_float(b.weight[c]);
    const float norm = (to_float(b.x[start + c]) - mean) * rstd;
    p = make_float2(p.x + dnorm, fmaf(dnorm, norm, p.y));
  }
  p = b.row_means(row_sums(team, p, 0));
  for (int64_t c = team.thread; c < b.columns; c += team.size) {
    const float dnorm = to_float(b.gradient(start + c)) * to_float(b.weight[c]);
    const float norm = (to_float(b.x[start + c]) - mean) * rstd;
    const float add = b.residual == nullptr ? 0.0f : to_float(b.residual[start + c]);
    b.dx[start + c] = from_float<T>(fmaf(rstd, dnorm - p.x - norm * p.y, add));
  }
}

// --- the choice ----------------------------------------------------------------------------------
// A piece per block that the GPU holds at a time, so that no second wave of blocks leaves most SMs
// idle. The order of the sums for dweight and dbias thus depends on multiprocessors().

/// Sets how rows are cut. Scratch is that of the most pieces, so that it is the same each time.
template <typename T>
void cut(Backward<T>& b, int64_t at_most, int64_t at_least) {
  b.pieces = RowPieces(b.pieces.rows, at_most, at_least);
  const auto elements = static_cast<size_t>(at_most * 2 * b.columns);
  b.partials = static_cast<float*>(workspace(elements * sizeof(float)));
}

constexpr const char* kName = "layer_norm_backward";

template <int K, typename T>
void run_warps(Backward<T>& b) {
  cut(b, int64_t{multiprocessors()} * resident_blocks(K), 4 * kWarpTeams);
  launch(kName,
         {dim3(static_cast<unsigned>(b.pieces.count())), dim3(kWarpTeams * kWarpSize),
          static_cast<size_t>(2 * b.columns) * sizeof(float) +
              NextRow<false, K, T>::bytes(b, kWarpTeams * kWarpSize)},
         backward_kernel<false, K, T>, b);
}

template <int K, typename T>
void run_block(Backward<T>& b, int64_t packs) {
  const int64_t threads = round_up(ceil_div(packs, K), kWarpSize);
  cut(b, multiprocessors() * std::min<int64_t>(4, kMostThreads / threads), 4);
  launch(kName,
         {dim3(static_cast<unsigned>(b.pieces.count())), dim3(static_cast<unsigned>(threads)),
          NextRow<true, K, T>::bytes(b, threads)},
         backward_kernel<true, K, T>, b);
}

template <typename T>
void run_any(Backward<T>& b) {
  const int64_t rows = b.pieces.rows, tiles = ceil_div(b.columns, kWarpSize);
  cut(b, std::clamp<int64_t>(1024 / tiles, 1, 256), 64);
  launch(
      kName,
      {dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(b.pieces.count())), dim3(kThreads)},
      any_columns_kernel<T>, b);
  const int64_t threads = round_up(std::min<int64_t>(b.columns, kThreads), kWarpSize);
  launch(kName, {dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads))},
         any_rows_kernel<T>, b);
}

template <typename T>
void choose(Backward<T>& b) {
  constexpr int N = kPackSize<T>;
  const int64_t packs = b.columns / N;
  const bool aligned = b.columns % N == 0 && takes_packs<N>(b.dy) && takes_packs<N>(b.x) &&
                       takes_packs<N>(b.weight) && takes_packs<N>(b.residual) &&
                       takes_packs<N>(b.addend) && takes_packs<N>(b.dx);
  if (!aligned || packs > 4 * kMostThreads) return run_any(b);
  if (packs <= kWarpSize) return run_warps<1>(b);
  if (packs <= 2 * kWarpSize) return run_warps<2>(b);
  if (packs <= 3 * kWarpSize) return run_warps<3>(b);
  if (packs <= 4 * kWarpSize) return run_warps<4>(b);
  if (packs <= 2 * kMostThreads) return run_block<2>(b, packs);
  run_block<4>(b, packs);
}

}  // namespace

void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const Tensor& residual, Tensor dx,
                         Tensor dweight, Tensor dbias, const Tensor& addend,
                         Accumulate accumulate) {
  if (x.numel() == 0) return;
  dispatch_float(x.dtype(), [&]<typename T>() {
    Backward<T> b{dy.data<T>(),
                  x.data<T>(),
                  weight.data<T>(),
                  mean.defined() ? mean.data<float>() : nullptr,
                  rstd.data<float>(),
                  residual.defined() ? residual.data<T>() : nullptr,
                  addend.defined() ? addend.data<T>() : nullptr,
                  dx.data<T>(),
                  x.dim(-1),
                  RowPieces(rstd.numel(), 1, 1),
                  nullptr};
    choose(b);
    add_pieces(b.partials, b.pieces.count(), 2, b.columns, accumulate, dweight.data<float>(),
               dbias.defined() ? dbias.data<float>() : nullptr);
  });
}

}  // namespace tessera::cuda
