#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/parameter.h"
#include "parallel/communicator.h"

namespace tessera {

/// Sums gradients over the data ranks while the backward pass still runs. The flat gradient buffer
/// is cut into buckets of neighbouring parameters; a bucket's all-reduce starts when the last of
/// its gradients is final. Backward finishes parameters from the last to the first, so buckets are
/// filled from the end of the buffer.
class GradientReducer {
 public:
  /// 25 MiB, as in Li et al., "PyTorch Distributed" (2020): large enough for bandwidth, small
  /// enough that the first bucket leaves early.
  static constexpr int64_t kBucketElements = 25 * (int64_t{1} << 20) / 4;

  GradientReducer(const ParameterStore& store, Communicator& dp,
                  int64_t bucket_elements = kBucketElements);

  /// A parameter's gradient is final. Each parameter once a step, in the same order on all data
  /// ranks.
  void add(const Parameter& parameter);

  /// Returns when every gradient is summed; throws if a parameter was never added.
  void finalize();

  size_t num_buckets() const { return buckets_.size(); }

 private:
  struct Bucket {
    Tensor grads;
    int64_t parameters = 0;
    int64_t missing = 0;
  };

  void progress();

  Communicator& dp_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  ///< by parameter, in the store's order
  std::vector<bool> added_;
  std::vector<const Parameter*> parameters_;
  std::vector<std::unique_ptr<PendingCollective>> pending_;
};

}  // namespace tessera
