#pragma once

#include "core/cuda/packs.h"
#include "core/cuda/philox.h"
#include "core/ops/stochastic_rounding.h"

namespace tessera::cuda {

/// How a kernel rounds what it stores. `store_rounded<N>(x, i, to)` rounds and stores the N
/// elements from i on.
struct NearestRounding {
  template <int N, typename T>
  __device__ void store_rounded(const Floats<N>& x, int64_t i, T* to) const {
    store_floats(x, to + i);
  }
};

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
    Pack<bfloat16, N> pack;
    if constexpr (N == 4) {
      if (blocks) {
        const uint4 words = philox_words(rounding.key, element(i) / 4);
        pack.at[0] = tessera::round_stochastically(x.at[0], words.x);
        pack.at[1] = tessera::round_stochastically(x.at[1], words.y);
        pack.at[2] = tessera::round_stochastically(x.at[2], words.z);
        pack.at[3] = tessera::round_stochastically(x.at[3], words.w);
        return store(pack, to + i);
      }
    }
    for (int j = 0; j < N; ++j) {
      const uint32_t word = random_word(rounding.key, element(i + j));
      pack.at[j] = tessera::round_stochastically(x.at[j], word);
    }
    store(pack, to + i);
  }

  StochasticRounding rounding;
  bool one_run;  ///< then no division is needed
  bool blocks;

 private:
  static bool is_multiple(int64_t number) { return number % 4 == 0; }

  __device__ uint64_t element(int64_t i) const {
    if (one_run) return static_cast<uint64_t>(rounding.index.first + rounding.begin + i);
    return rounding.element(i);
  }
};

}  // namespace tessera::cuda
