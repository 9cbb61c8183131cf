#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera {

/// The sizes of a ProcessGrid that a configuration gives; Axis::data has the remaining ranks.
struct GridShape {
  int64_t pipeline = 1;
  int64_t context = 1;
  int64_t tensor = 1;
  static constexpr int64_t kAllReplicas = 0;
  /// The number of neighboring replicas that share one set of optimizer shards (ZeRO), or
  /// kAllReplicas. 1: each has all of the optimizer's state.
  int64_t shards = 1;

  /// The ranks that compute the same samples.
  int64_t ranks_of_samples() const { return pipeline * context * tensor; }
  /// The size of Axis::data in a run of `ranks` ranks, which need not be valid.
  int64_t data_ranks(int64_t ranks) const {
    return std::max<int64_t>(1, ranks / ranks_of_samples());
  }
};

}  // namespace tessera
