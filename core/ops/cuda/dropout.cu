#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/cuda/philox.h"
#include "core/ops/cuda/dropout_moment.h"
#include "core/ops/cuda/ops.h"
#include "core/ops/dropout.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

/// Where elements are in the stream of a dropout of a tensor with `columns` columns.
struct Mask {
  Mask(const Dropout& dropout, int64_t columns_)
      : active(dropout.active()),
        threshold(dropout.threshold()),
        scale(dropout.scale()),
        key(dropout.key),
        moment(moment_of(dropout)),
        columns(columns_),
        first_row(0),
        rows(dropout.rows.defined() ? dropout.rows.data<int32_t>() : nullptr) {}

  bool active;
  uint32_t threshold;
  float scale;
  RandomKey key;
  DropoutMoment moment;
  int64_t columns, first_row;
  const int32_t* rows;

  /// Takes what the moment says, before anything is dropped.
  __device__ void begin() {
    key.step = moment.step();
    first_row = moment.first_row();
  }

  /// The index in the stream of the tensor's element `i`.
  __device__ uint64_t stream_index(int64_t i) const {
    if (rows == nullptr) return static_cast<uint64_t>(first_row * columns + i);
    const int64_t row = i / columns;
    return static_cast<uint64_t>((first_row + rows[row] - row) * columns + i);
  }

  __device__ float apply(uint32_t bits, float x) const {
    return bits < threshold ? 0.0f : x * scale;
  }

  /// Drops elements [i, i + N), which lie in one row; columns is a multiple of N, so that four at a
  /// time share a block of Philox, or N is 1.
  template <int N>
  __device__ void drop(int64_t i, Floats<N>& x) const {
    const uint64_t at = stream_index(i);
    if constexpr (N == 1) {
      x.at[0] = apply(random_word(key, at), x.at[0]);
    } else {
      for (int j = 0; j < N; j += 4) {
        const uint4 words = philox_words(key, at / 4 + j / 4);
        x.at[j] = apply(words.x, x.at[j]);
        x.at[j + 1] = apply(words.y, x.at[j + 1]);
        x.at[j + 2] = apply(words.z, x.at[j + 2]);
        x.at[j + 3] = apply(words.w, x.at[j + 3]);
      }
    }
  }
};

template <int N, typename T>
__global__ void dropout_kernel(const T* x, Mask mask, int64_t n, T* y) {
  mask.begin();
  for (int64_t i = global_thread() * N; i < n; i += global_threads() * N) {
    Floats<N> value = load_floats<N>(x + i);
    mask.drop(i, value);
    store_floats(value, y + i);
  }
}

template <int N, typename T>
__global__ void bias_dropout_add_kernel(const T* x, const T* bias, const T* residual, Mask mask,
                                        int64_t n, T* out) {
  if (mask.active) mask.begin();
  for (int64_t i = global_thread() * N; i < n; i += global_threads() * N) {
    Floats<N> value = load_floats<N>(x + i);
    const Floats<N> add = load_floats<N>(residual + i);
    if (bias != nullptr) {
      const Floats<N> b = load_floats<N>(bias + i % mask.columns);
      for (int j = 0; j < N; ++j) value.at[j] += b.at[j];
    }
    if (mask.active) mask.drop(i, value);
    for (int j = 0; j < N; ++j) value.at[j] += add.at[j];
    store_floats(value, out + i);
  }
}

/// Calls `body` with the largest pack of T that divides rows of `columns` and that all pointers
/// take, as a constant: 8 (bf16 alone), 4 or 1. One by one costs four times the random numbers.
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
  const Mask mask(dropout, columns);
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
  const Mask mask(dropout, columns);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T *in = x.data<T>(), *add = residual.data<T>();
    const T* b = bias.defined() ? bias.data<T>() : nullptr;
    T* to = out.data<T>();
    const auto run = [&]<int N>() {
      launch("bias_dropout_add", one_dimensional(ceil_div(n, N), kThreads),
             bias_dropout_add_kernel<N, T>, in, b, add, mask, n, to);
    };
    dispatch_pack<T>(columns, run, in, b, add, to);
  });
}

}  // namespace tessera::cuda
