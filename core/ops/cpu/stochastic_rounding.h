#pragma once

#include <algorithm>

#include "core/ops/stochastic_rounding.h"

namespace tessera::cpu {

/// Calls `body(first, count, words)` for elements [begin, end), tile by tile, with the random words
/// of elements [first, first + count).
template <typename Body>
void for_each_tile(const StochasticRounding& rounding, int64_t begin, int64_t end, Body&& body) {
  constexpr int64_t kTile = 1024;
  uint32_t words[kTile];
  for (int64_t i = begin; i < end;) {
    const int64_t in_run = (rounding.begin + i) % rounding.index.run;
    const int64_t count = std::min({kTile, end - i, rounding.index.run - in_run});
    random_bits(rounding.key, rounding.element(i), count, words);
    body(i, count, words);
    i += count;
  }
}

}  // namespace tessera::cpu
