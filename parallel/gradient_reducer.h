#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Sums gradients over the data ranks while the backward pass runs. The reduction of a bucket
/// starts when its last gradient is final. Without ZeRO it is an all-reduce, and every rank gets
/// all sums. With ZeRO it is an in-place reduce-scatter: each rank gets the sums of its optimizer
/// shard, and the other gradients are undefined afterwards.
class GradientReducer {
 public:
  /// `store` must be allocated; both arguments must outlive this object. Throws if the store is
  /// sharded over ranks other than `dp`.
  GradientReducer(const ParameterStore& store, Communicator& dp);

  /// Marks a parameter's gradient as final. Call it once per parameter and step, in the same order
  /// on all data ranks.
  void add(const Parameter& parameter);

  /// Runs `pass`, a backward pass that is captured and not executed. Calls `at` with the index of a
  /// bucket where add() would start its reduction. Leaves the reducer as if nothing had been added.
  void record(const std::function<void()>& pass, const std::function<void(size_t)>& at);

  /// Starts the reduction of a bucket after replaying the part of the captured pass that makes its
  /// gradients final.
  void start(size_t bucket);

  /// Waits until every gradient is summed. Throws if a parameter was never added.
  void finalize();

 private:
  std::unique_ptr<PendingCollective> sum(const FlatBucket& bucket) const;
  void progress();
  void reset();

  const ParameterStore& store_;
  Communicator& dp_;
  std::vector<int64_t> missing_;  ///< gradients of each bucket that are not final yet
  std::vector<bool> added_;       ///< by parameter, in the store's order
  std::vector<const Parameter*> parameters_;
  std::vector<std::unique_ptr<PendingCollective>> pending_;
  std::function<void(size_t)> recorded_;  ///< called instead of start() during record()
};

}  // namespace tessera
