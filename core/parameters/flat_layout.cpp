#include "core/parameters/flat_layout.h"

#include <algorithm>

#include "core/checked.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/memory.h"

namespace tessera {
namespace {

constexpr int64_t kAlignedElements = kAlignment / sizeof(bfloat16);  // aligned in every dtype

}  // namespace

FlatLayout::FlatLayout(std::span<const int64_t> sizes, const OptimizerSharding& sharding,
                       std::span<const UnitBegin> units)
    : sharding_(sharding), offsets_(sizes.size()), bucket_of_(sizes.size()) {
  require(sharding.num_shards >= 1 && 0 <= sharding.shard && sharding.shard < sharding.num_shards,
          "flat buffers cannot be sharded: this is shard {} of {}", sharding.shard,
          sharding.num_shards);
  const auto aligned = [&](int64_t parameter) {
    return round_up(sizes[static_cast<size_t>(parameter)], kAlignedElements);
  };
  auto end = static_cast<int64_t>(sizes.size());
  const auto begins_unit = [&](int64_t parameter) {
    return parameter == 0 ||
           std::ranges::find(units, parameter, &UnitBegin::parameter) != units.end();
  };
  std::vector<int64_t> before(sizes.size());  // elements of the unit before each parameter
  for (int64_t i = 1; i < end; ++i) {
    const auto at = static_cast<size_t>(i);
    if (!begins_unit(i)) before[at] = before[at - 1] + aligned(i - 1);
  }
  const auto is_block = [&](int64_t parameter) {
    const auto next = std::ranges::upper_bound(units, parameter, {}, &UnitBegin::parameter);
    return next != units.begin() && std::prev(next)->is_block;
  };
  const auto is_shared = [&](int64_t parameter) {
    return (sharding.shards_gradients || sharding.shards_values) && is_block(parameter);
  };
  int64_t elements = 0;
  for (int64_t i = end; i-- > 0;) {
    elements += aligned(i);
    const bool is_full = elements >= sharding.bucket_elements && !is_shared(i) &&
                         2 * before[static_cast<size_t>(i)] >= sharding.bucket_elements;
    if (!is_full && !begins_unit(i)) continue;
    buckets_.push_back({{0, elements}, {i, end}, {}});
    end = i;
    elements = 0;
  }
  std::reverse(buckets_.begin(), buckets_.end());

  int64_t begin = 0;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    FlatBucket& bucket = buckets_[b];
    int64_t offset = begin;
    for (int64_t i = bucket.parameters.begin; i < bucket.parameters.end; ++i) {
      offsets_[static_cast<size_t>(i)] = offset;
      bucket_of_[static_cast<size_t>(i)] = b;
      offset += aligned(i);
    }
    const int64_t piece =
        round_up(ceil_div(bucket.elements.size(), sharding.num_shards), kAlignedElements);
    bucket.num_shards = sharding.num_shards;
    bucket.elements = {begin, begin + piece * sharding.num_shards};
    bucket.shard = bucket.shard_of(sharding.shard);
    bucket.state_begin = shard_size_;
    shard_size_ += piece;
    const bool in_block = is_block(bucket.parameters.begin);
    bucket.values = sharding.shards_values && in_block ? bucket.shard : bucket.elements;
    bucket.values_begin = values_size_;
    values_size_ += bucket.values.size();
    bucket.gradients = sharding.shards_gradients && in_block ? bucket.shard : bucket.elements;
    bucket.gradients_begin = gradients_size_;
    gradients_size_ += bucket.gradients.size();
    begin = bucket.elements.end;
  }
}

Range FlatLayout::in_shard_buffer(size_t bucket, Range elements) const {
  const FlatBucket& place = buckets_[bucket];
  const int64_t shift = place.state_begin - place.shard.begin;
  return {elements.begin + shift, elements.end + shift};
}

}  // namespace tessera
