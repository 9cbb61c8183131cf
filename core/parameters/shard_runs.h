#pragma once

#include <cstdint>

#include "core/parameters/parameter.h"

namespace tessera {

/// Calls `run(global, local, count)` for the contiguous pieces of a shard: elements [local, local +
/// count) of the shard are elements [global, global + count) of the whole tensor.
template <typename Run>
void for_each_run(const Shape& global_shape, const Shard& shard, Run&& run) {
  const int dim = shard.replicated() ? 0 : shard.dim;
  const Range range = shard.replicated() ? Range{0, global_shape[0]} : shard.range;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < dim; ++i) outer *= global_shape[i];
  for (int i = dim + 1; i < global_shape.rank(); ++i) inner *= global_shape[i];
  const int64_t count = range.size() * inner;
  for (int64_t o = 0; o < outer; ++o) {
    run((o * global_shape[dim] + range.begin) * inner, o * count, count);
  }
}

}  // namespace tessera
