#pragma once

#include <optional>

#include "core/cuda/packs.h"
#include "core/cuda/philox.h"
#include "core/dtype.h"
#include "core/ops/stochastic_rounding.h"

namespace tessera::cuda {

/// How a kernel rounds what it stores. `store_rounded<N>(x, i, to)` rounds and stores the N
/// elements from i on; `store_pair<N>(x, y, i, to_x, to_y)` does so for two tensors.
struct NearestRounding {
  template <int N, typename T>
  __device__ void store_rounded(const Floats<N>& x, int64_t i, T* to) const {
    store_floats(x, to + i);
  }

  template <int N, typename T>
  __device__ void store_pair(const Floats<N>& x, const Floats<N>& y, int64_t i, T* to_x,
                             T* to_y) const {
    store_floats(x, to_x + i);
    store_floats(y, to_y + i);
  }
};

/// The random words of a pack of elements.
template <int N>
struct Words {
  uint32_t at[N];
};

template <int N>
__device__ void store_with_words(const Floats<N>& x, const Words<N>& words, bfloat16* to) {
  Pack<bfloat16, N> pack;
  for (int j = 0; j < N; ++j) pack.at[j] = tessera::round_stochastically(x.at[j], words.at[j]);
  store(pack, to);
}

/// Rounds with the bits of core/ops/stochastic_rounding.h. If `blocks` is set, runs and their
/// starts in the global tensor are multiples of 4, so an aligned pack of 4 is one block of Philox.
struct RandomRounding {
  explicit RandomRounding(const StochasticRounding& rounding_)
      : rounding(rounding_),
        one_run(rounding_.index.run == INT64_MAX),
        blocks(is_multiple(rounding_.index.first) && is_multiple(rounding_.begin) &&
               (one_run ||
                (is_multiple(rounding_.index.run) && is_multiple(rounding_.index.global_run)))) {}

  template <int N>
  __device__ void store_rounded(const Floats<N>& x, int64_t i, bfloat16* to) const {
    store_with_words(x, words<N>(i), to + i);
  }

  /// Rounds x with the lower halves of the words, and y with the upper ones.
  template <int N>
  __device__ void store_pair(const Floats<N>& x, const Floats<N>& y, int64_t i, bfloat16* to_x,
                             bfloat16* to_y) const {
    Words<N> halves = words<N>(i);
    store_with_words(x, halves, to_x + i);
    for (int j = 0; j < N; ++j) halves.at[j] >>= 16;
    store_with_words(y, halves, to_y + i);
  }

  StochasticRounding rounding;
  bool one_run;  ///< then no division is needed
  bool blocks;

 private:
  template <int N>
  __device__ Words<N> words(int64_t i) const {
    if constexpr (N == 4) {
      if (blocks) {
        const uint4 block = philox_words(rounding.key, element(i) / 4);
        return {block.x, block.y, block.z, block.w};
      }
    }
    Words<N> result;
    for (int j = 0; j < N; ++j) result.at[j] = random_word(rounding.key, element(i + j));
    return result;
  }

  static bool is_multiple(int64_t number) { return number % 4 == 0; }

  __device__ uint64_t element(int64_t i) const {
    if (one_run) return static_cast<uint64_t>(rounding.index.first + rounding.begin + i);
    return rounding.element(i);
  }
};

/// Calls launch(how) with how to round to T: stochastically if T is bf16 and `rounding` is set.
template <typename T, typename Launch>
void with_rounding(const std::optional<StochasticRounding>& rounding, const Launch& launch) {
  if constexpr (dtype_of<T>() == DType::bf16) {
    if (rounding) return launch(RandomRounding(*rounding));
  }
  launch(NearestRounding{});
}

/// How to round moments to M. bf16 moments are always rounded stochastically.
template <typename M>
auto moment_rounding(const std::optional<StochasticRounding>& rounding) {
  if constexpr (dtype_of<M>() == DType::bf16) {
    return RandomRounding(*rounding);
  } else {
    return NearestRounding{};
  }
}

}  // namespace tessera::cuda
