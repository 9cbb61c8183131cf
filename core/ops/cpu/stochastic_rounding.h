#pragma once

#include <algorithm>
#include <optional>

#include "core/ops/stochastic_rounding.h"

namespace tessera::cpu {

inline constexpr int64_t kRoundingTile = 1024;

/// Calls `body(first, count, words)` for elements [begin, end), tile by tile, with the random words
/// of elements [first, first + count).
template <typename Body>
void for_each_tile(const StochasticRounding& rounding, int64_t begin, int64_t end, Body&& body) {
  uint32_t words[kRoundingTile];
  for (int64_t i = begin; i < end;) {
    const int64_t in_run = (rounding.begin + i) % rounding.index.run;
    const int64_t count = std::min({kRoundingTile, end - i, rounding.index.run - in_run});
    random_bits(rounding.key, rounding.element(i), count, words);
    body(i, count, words);
    i += count;
  }
}

/// to[i] = from[i], rounded, for i in [begin, end).
inline void round_elements(const StochasticRounding& rounding, int64_t begin, int64_t end,
                           const float* from, bfloat16* to) {
  for_each_tile(rounding, begin, end, [=](int64_t first, int64_t count, const uint32_t* words) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      to[first + i] = tessera::round_stochastically(from[first + i], words[i]);
    }
  });
}

/// Calls `body(first, count, words)` for elements [begin, end) of an optimizer's step, with the
/// random words of moments that are rounded, otherwise null. If moments or values are rounded,
/// `count` is so small that elements stay in the cache between `body` and round_elements().
template <typename Body>
void for_each_updated_tile(const std::optional<StochasticRounding>& moments,
                           const std::optional<StochasticRounding>& values, int64_t begin,
                           int64_t end, Body&& body) {
  if (moments) return for_each_tile(*moments, begin, end, body);
  const uint32_t* none = nullptr;
  const int64_t tile = values ? kRoundingTile : end - begin;
  for (int64_t i = begin; i < end; i += tile) body(i, std::min(tile, end - i), none);
}

/// Runs a step that updates weights: `body` rounds them to nearest, unless `values` is set.
/// Then they are rounded from `master` to `value` here.
template <typename T, typename Body>
void for_each_weight_tile(const std::optional<StochasticRounding>& moments,
                          const std::optional<StochasticRounding>& values, const Range& elements,
                          const float* master, T* value, Body&& body) {
  for_each_updated_tile(moments, values, elements.begin, elements.end,
                        [&](int64_t first, int64_t count, const uint32_t* words) {
                          body(first, count, words);
                          if constexpr (dtype_of<T>() == DType::bf16) {
                            if (values) {
                              round_elements(*values, first, first + count, master, value);
                            }
                          }
                        });
}

/// The random word of element `i`; 0 without need to read `words` if moments of type M are not
/// rounded.
template <typename M>
[[gnu::always_inline]] inline uint32_t word_of(const uint32_t* words, int64_t i) {
  if constexpr (dtype_of<M>() == DType::f32) return 0;
  return words[i];
}

/// Stores an element of a moment that is not rounded, or is rounded with a random word.
[[gnu::always_inline]] inline void store_moment(float value, uint32_t /*word*/, float& to) {
  to = value;
}
[[gnu::always_inline]] inline void store_moment(float value, uint32_t word, bfloat16& to) {
  to = tessera::round_stochastically(value, word);
}

}  // namespace tessera::cpu
