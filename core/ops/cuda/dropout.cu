#include <numeric>

#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/ops/cuda/branch_end.h"
#include "core/ops/device_ops.h"
#include "core/ops/dropout.h"

namespace tessera::cuda {
namespace {

/// The dropout of a tensor with some of `total` columns.
struct ColumnsMask {
  DropoutMask mask;
  int64_t first, total;

  __device__ uint64_t stream_index(int64_t i) const {
    const int64_t row = i / mask.columns, column = i - row * mask.columns;
    const int64_t stream_row = mask.first_row + (mask.rows == nullptr ? row : mask.rows[row]);
    return static_cast<uint64_t>(stream_row * total + first + column);
  }
};

template <int N, typename T>
__global__ void dropout_kernel(const T* x, ColumnsMask columns, int64_t n, T* y) {
  columns.mask.begin();
  for (int64_t i = global_thread() * N; i < n; i += global_threads() * N) {
    Floats<N> value = load_floats<N>(x + i);
    columns.mask.template drop_at<N>(columns.stream_index(i), value);
    store_floats(value, y + i);
  }
}

template <int N, typename T>
__global__ void bias_dropout_add_kernel(BranchEnd<T> end, int64_t n, T* out) {
  end.begin();
  for (int64_t i = global_thread() * N; i < n; i += global_threads() * N) {
    store(end.template sum<N>(i, i % end.mask.columns), out + i);
  }
}

/// Calls `body` with the largest pack of T, as a template argument, that divides `columns` and
/// suits all pointers: 8 (bf16 only), 4 or 1. Single elements cost four times the random
/// numbers.
template <typename T, typename Body, typename... Pointers>
void dispatch_pack(int64_t columns, Body&& body, const Pointers*... pointers) {
  constexpr int kMost = kPackSize<T>;
  if (columns % kMost == 0 && (takes_packs<kMost>(pointers) && ...)) {
    body.template operator()<kMost>();
  } else if (columns % 4 == 0 && (takes_packs<4>(pointers) && ...)) {
    body.template operator()<4>();
  } else {
    body.template operator()<1>();
  }
}

}  // namespace

void dropout(const Tensor& x, const Dropout& dropout, Tensor y) {
  const int64_t n = x.numel(), columns = x.dim(-1);
  const int64_t total = dropout.total_columns == 0 ? columns : dropout.total_columns;
  const ColumnsMask mask{DropoutMask(dropout, columns), dropout.first_column, total};
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* in = x.data<T>();
    T* out = y.data<T>();
    const auto run = [&]<int N>() {
      launch("dropout", one_dimensional(ceil_div(n, N), kBlockThreads), dropout_kernel<N, T>, in,
             mask, n, out);
    };
    dispatch_pack<T>(std::gcd(columns, std::gcd(mask.first, total)), run, in, out);
  });
}

void bias_dropout_add(const Tensor& x, const Tensor& bias, const Tensor& residual,
                      const Dropout& dropout, Tensor out) {
  const int64_t n = x.numel(), columns = x.dim(-1);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const BranchEnd<T> end = branch_end<T>(x, bias, residual, dropout);
    T* to = out.data<T>();
    const auto run = [&]<int N>() {
      launch("bias_dropout_add", one_dimensional(ceil_div(n, N), kBlockThreads),
             bias_dropout_add_kernel<N, T>, end, n, to);
    };
    dispatch_pack<T>(columns, run, end.branch, end.bias, end.residual, to);
  });
}

}  // namespace tessera::cuda
