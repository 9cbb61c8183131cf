#pragma once

#include <cstdint>

namespace tessera {

/// Maps the elements of a rank's shard to the global tensor, both in row-major order. Every `run`
/// consecutive elements of the shard are consecutive in the global tensor; the starts of two
/// neighboring runs are `global_run` elements apart there.
struct GlobalIndex {
  int64_t run = INT64_MAX;
  int64_t global_run = INT64_MAX;
  int64_t first = 0;  ///< global index of the shard's first element

  /// The global index of the shard's element `i`.
  constexpr int64_t operator()(int64_t i) const { return i / run * global_run + first + i % run; }
};

}  // namespace tessera
