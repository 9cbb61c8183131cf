#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/range.h"

namespace tessera {

/// How the flat buffers of a store are cut: into buckets of neighbouring parameters, whose
/// gradients travel together, and each bucket into a piece of equal size for each owner
/// (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
/// 2020, stage 1). The owners are ranks that hold the same parameters.
struct OptimizerSharding {
  /// 25 MiB of gradients, as in Li et al., "PyTorch Distributed" (2020): large enough for
  /// bandwidth, small enough that the first reduction starts early.
  static constexpr int64_t kBucketElements = 25 * (int64_t{1} << 20) / 4;

  int num_shards = 1;
  int shard = 0;  ///< this rank's number among them
  int64_t bucket_elements = kBucketElements;

  bool sharded() const { return num_shards > 1; }
};

/// Neighboring parameters in the flat buffers.
struct FlatBucket {
  Range elements;    ///< of the flat buffers, with the padding at its end
  Range parameters;  ///< by their numbers
  Range shard;       ///< this rank's piece of `elements`
};

/// Where parameters are in the flat buffers: in order, each aligned for every dtype. Each bucket is
/// padded so that its shards are equal and aligned.
class FlatLayout {
 public:
  FlatLayout() = default;

  /// `sizes`: the elements of each parameter, in the order of the forward pass. Backward finishes
  /// them from the last to the first, so buckets are filled from the end: each has as many
  /// parameters as it takes to reach sharding.bucket_elements.
  FlatLayout(std::span<const int64_t> sizes, const OptimizerSharding& sharding);

  const OptimizerSharding& sharding() const { return sharding_; }
  int64_t size() const { return buckets_.empty() ? 0 : buckets_.back().elements.end; }
  /// Elements of this rank's pieces together.
  int64_t shard_size() const { return size() / sharding_.num_shards; }

  /// The first element of a parameter.
  int64_t offset(size_t parameter) const { return offsets_[parameter]; }
  /// In the order of their elements.
  const std::vector<FlatBucket>& buckets() const { return buckets_; }
  /// The index of a parameter's bucket.
  size_t bucket_of(size_t parameter) const { return bucket_of_[parameter]; }

  /// Where elements of bucket `bucket`, which this rank owns, are in a buffer that holds the owned
  /// pieces alone, one after the other.
  Range in_shard_buffer(size_t bucket, Range elements) const;

 private:
  OptimizerSharding sharding_;
  std::vector<int64_t> offsets_;
  std::vector<size_t> bucket_of_;
  std::vector<FlatBucket> buckets_;
};

}  // namespace tessera
