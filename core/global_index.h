#pragma once

#include <cstdint>

namespace tessera {

/// Where the elements of a rank's shard lie in the whole tensor, both counted row-major: each `run`
/// elements of the shard, one after the other, are one after the other there too, and `global_run`
/// elements of the whole lie from the start of one such run to that of the next.
struct GlobalIndex {
  int64_t run = INT64_MAX;
  int64_t global_run = INT64_MAX;
  int64_t first = 0;  ///< of the shard's first element

  /// The element of the whole tensor that is the shard's element `i`.
  constexpr int64_t operator()(int64_t i) const { return i / run * global_run + first + i % run; }
};

}  // namespace tessera
