#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/ops/cuda/branch_end.h"
#include "core/ops/device_ops.h"
#include "core/ops/dropout.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

template <int N, typename T>
__global__ void dropout_kernel(const T* x, DropoutMask mask, int64_t n, T* y) {
  mask.begin();
  for (int64_t i = global_thread() * N; i < n; i += global_threads() * N) {
    Floats<N> value = load_floats<N>(x + i);
    mask.drop(i, value);
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

/// Calls `body` with the largest pack of T, as a template argument, that divides rows of `columns`
/// and suits all pointers: 8 (bf16 only), 4 or 1. Single elements cost four times the random
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
  const DropoutMask mask(dropout, columns);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* in = x.data<T>();
    T* out = y.data<T>();
    const auto run = [&]<int N>() {
      launch("dropout", one_dimensional(ceil_div(n, N), kThreads), dropout_kernel<N, T>, in, mask,
             n, out);
    };
    dispatch_pack<T>(columns, run, in, out);
  });
}

void bias_dropout_add(const Tensor& x, const Tensor& bias, const Tensor& residual,
                      const Dropout& dropout, Tensor out) {
  const int64_t n = x.numel(), columns = x.dim(-1);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const BranchEnd<T> end = branch_end<T>(x, bias, residual, dropout);
    T* to = out.data<T>();
    const auto run = [&]<int N>() {
      launch("bias_dropout_add", one_dimensional(ceil_div(n, N), kThreads),
             bias_dropout_add_kernel<N, T>, end, n, to);
    };
    dispatch_pack<T>(columns, run, end.branch, end.bias, end.residual, to);
  });
}

}  // namespace tessera::cuda
