#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Sums gradients over the data ranks while the backward pass still runs. A bucket of the store's
/// layout starts when the last of its gradients is final. Each rank gets the sum of all gradients,
/// by an all-reduce; where the data ranks share the optimizer's state, of those that it owns, by a
/// reduce-scatter in place, after which the other gradients are good for nothing.
class GradientReducer {
 public:
  /// Both must outlive this; the store is allocated. Throws if others than the data ranks own it.
  GradientReducer(const ParameterStore& store, Communicator& dp);

  /// A parameter's gradient is final. Each parameter once a step, in the same order on all data
  /// ranks.
  void add(const Parameter& parameter);

  /// Runs `pass`, a backward pass that is only recorded: where add() would start a bucket, `at` is
  /// called with its index instead, and afterwards it is as if nothing had been added.
  void record(const std::function<void()>& pass, const std::function<void(size_t)>& at);

  /// Starts a bucket whose gradients are final since what record() saw runs again.
  void start(size_t bucket);

  /// Returns when every gradient is summed; throws if a parameter was never added.
  void finalize();

 private:
  std::unique_ptr<PendingCollective> sum(const FlatBucket& bucket) const;
  void progress();
  void reset();

  const ParameterStore& store_;
  Communicator& dp_;
  std::vector<int64_t> missing_;  ///< gradients of each bucket
  std::vector<bool> added_;       ///< by parameter, in the store's order
  std::vector<const Parameter*> parameters_;
  std::vector<std::unique_ptr<PendingCollective>> pending_;
  std::function<void(size_t)> recorded_;  ///< called in place of start(), in record()
};

}  // namespace tessera
