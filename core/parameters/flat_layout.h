#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/range.h"

namespace tessera {

/// How the flat buffers of a store are divided: into buckets of neighboring parameters of one unit,
/// whose gradients are reduced together, and each bucket into optimizer shards of equal size
/// (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
/// 2020). Ranks that hold the same parameters own one shard each, of the optimizer's state (stage
/// 1) and, of the blocks, also of the gradients (stage 2) and the values (stage 3).
struct OptimizerSharding {
  /// 25 MiB of gradients, as in Li et al., "PyTorch Distributed" (2020): large enough for
  /// bandwidth, small enough that the first reduction starts early.
  static constexpr int64_t kBucketElements = 25 * (int64_t{1} << 20) / 4;

  int num_shards = 1;
  int shard = 0;  ///< the index of this rank's shard
  int64_t bucket_elements = kBucketElements;
  bool shards_gradients = false;  ///< a rank keeps only its shards of the blocks' gradients
  bool shards_values = false;     ///< likewise of the blocks' values

  bool sharded() const { return num_shards > 1; }
};

/// Neighboring parameters in the flat buffers.
struct FlatBucket {
  Range elements;            ///< in the flat buffers, with the padding at the end
  Range parameters;          ///< indices of the parameters
  Range shard;               ///< this rank's part of `elements`
  int num_shards = 1;        ///< equal parts of `elements`
  int64_t state_begin = 0;   ///< first element of `shard` in a buffer of this rank's shards alone
  Range values = {};         ///< the elements whose values this rank keeps: all, or `shard`
  int64_t values_begin = 0;  ///< the first of them in the buffer of values
  Range gradients = {};      ///< likewise of gradients
  int64_t gradients_begin = 0;

  bool shards_values() const { return values != elements; }
  bool shards_gradients() const { return gradients != elements; }
  Range shard_of(int index) const {
    const int64_t size = elements.size() / num_shards, begin = elements.begin + index * size;
    return {begin, begin + size};
  }
};

/// The first parameter of a unit (ParameterUnit), and whether the unit is a block.
struct UnitBegin {
  int64_t parameter = 0;
  bool is_block = false;
};

/// Places of parameters in the flat buffers: in order, each aligned for every dtype. Each bucket is
/// padded so that its shards are equal and aligned.
class FlatLayout {
 public:
  FlatLayout() = default;

  /// `sizes`: the number of elements of each parameter, in the order of the forward pass; 0 for one
  /// that has no place in the buffers. Backward finishes gradients in reverse, so buckets are
  /// filled from the last parameter: each has as many parameters as it takes to reach
  /// sharding.bucket_elements, or all of a unit if what would remain of it is less than half of
  /// that, or if it is a block whose gradients or values are sharded. Without `units`, all
  /// parameters are one.
  FlatLayout(std::span<const int64_t> sizes, const OptimizerSharding& sharding,
             std::span<const UnitBegin> units = {});

  const OptimizerSharding& sharding() const { return sharding_; }
  int64_t size() const { return buckets_.empty() ? 0 : buckets_.back().elements.end; }
  /// The number of elements in this rank's shards of all buckets.
  int64_t shard_size() const { return shard_size_; }
  /// The number of elements of this rank's buffers of values and of gradients.
  int64_t values_size() const { return values_size_; }
  int64_t gradients_size() const { return gradients_size_; }

  /// The first element of a parameter.
  int64_t offset(size_t parameter) const { return offsets_[parameter]; }
  /// In the order of their elements.
  const std::vector<FlatBucket>& buckets() const { return buckets_; }
  /// The index of a parameter's bucket.
  size_t bucket_of(size_t parameter) const { return bucket_of_[parameter]; }

  /// Maps elements of bucket `bucket`, within this rank's shard, to a buffer that holds this rank's
  /// shards alone, in order.
  Range in_shard_buffer(size_t bucket, Range elements) const;

 private:
  OptimizerSharding sharding_;
  std::vector<int64_t> offsets_;
  std::vector<size_t> bucket_of_;
  std::vector<FlatBucket> buckets_;
  int64_t shard_size_ = 0, values_size_ = 0, gradients_size_ = 0;
};

}  // namespace tessera
