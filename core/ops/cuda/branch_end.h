#pragma once

#include <cstdint>

#include "core/cuda/packs.h"
#include "core/cuda/philox.h"
#include "core/ops/cuda/dropout_rng.h"
#include "core/tensor.h"

/// Kernel code for the end of a residual branch: residual + dropout(x + bias).
namespace tessera::cuda {

/// The dropout of a tensor with `columns` columns, as kernels need it.
struct DropoutMask {
  DropoutMask(const Dropout& dropout, int64_t columns_)
      : active(dropout.active()),
        threshold(dropout.threshold()),
        scale(dropout.scale()),
        key(dropout.key),
        rng(rng_of(dropout)),
        columns(columns_),
        first_row(0),
        rows(dropout.rows.defined() ? dropout.rows.data<int32_t>() : nullptr) {}

  bool active;
  uint32_t threshold;
  float scale;
  RandomKey key;
  DropoutRng rng;
  int64_t columns, first_row;
  const int32_t* rows;

  /// Reads the step and the first row. Call it before anything is dropped.
  __device__ void begin() {
    key.step = rng.step();
    first_row = rng.first_row();
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

  /// Drops elements [i, i + N), which are in one row. N is 1 or divides `columns`, so aligned
  /// groups of four share a block of Philox.
  template <int N>
  __device__ void drop(int64_t i, Floats<N>& x) const {
    drop_at<N>(stream_index(i), x);
  }

  /// Drops N elements from the index `at` of the stream, a multiple of 4 unless N is 1.
  template <int N>
  __device__ void drop_at(uint64_t at, Floats<N>& x) const {
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

/// residual + dropout(branch + bias).
template <typename T>
struct BranchEnd {
  const T *branch, *bias, *residual;  ///< bias may be null
  DropoutMask mask;

  /// Call it once in each thread, before sum().
  __device__ void begin() {
    if (mask.active) mask.begin();
  }

  /// Computes elements [i, i + N), rounded; the first is in column `column`. N is as for
  /// DropoutMask::drop.
  template <int N>
  __device__ Pack<T, N> sum(int64_t i, int64_t column) const {
    Floats<N> value = load_floats<N>(branch + i);
    const Floats<N> add = load_floats<N>(residual + i);
    if (bias != nullptr) {
      const Floats<N> b = load_floats<N>(bias + column);
      for (int j = 0; j < N; ++j) value.at[j] += b.at[j];
    }
    if (mask.active) mask.drop(i, value);
    for (int j = 0; j < N; ++j) value.at[j] += add.at[j];
    return round_to<T>(value);
  }
};

template <typename T>
BranchEnd<T> branch_end(const Tensor& branch, const Tensor& bias, const Tensor& residual,
                        const Dropout& dropout) {
  return {branch.data<T>(), bias.defined() ? bias.data<T>() : nullptr, residual.data<T>(),
          DropoutMask(dropout, branch.dim(-1))};
}

}  // namespace tessera::cuda
