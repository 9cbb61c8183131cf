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

FlatLayout::FlatLayout(std::span<const int64_t> sizes, const FlatCut& cut)
    : cut_(cut), offsets_(sizes.size()), bucket_of_(sizes.size()) {
  require(cut.owners >= 1 && 0 <= cut.owner && cut.owner < cut.owners,
          "flat buffers cannot be cut for owner {} of {}", cut.owner, cut.owners);
  const auto aligned = [&](int64_t parameter) {
    return round_up(sizes[static_cast<size_t>(parameter)], kAlignedElements);
  };
  auto end = static_cast<int64_t>(sizes.size());
  int64_t elements = 0;
  for (int64_t i = end; i-- > 0;) {
    elements += aligned(i);
    if (elements < cut.bucket_elements && i > 0) continue;
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
    const int64_t piece = round_up(ceil_div(bucket.elements.size(), cut.owners), kAlignedElements);
    bucket.elements = {begin, begin + piece * cut.owners};
    bucket.owned = {begin + piece * cut.owner, begin + piece * (cut.owner + 1)};
    begin = bucket.elements.end;
  }
}

Range FlatLayout::in_owned_buffer(size_t bucket, Range elements) const {
  // Those of the buckets before, which divide evenly.
  const FlatBucket& place = buckets_[bucket];
  const int64_t shift = place.elements.begin / cut_.owners - place.owned.begin;
  return {elements.begin + shift, elements.end + shift};
}

}  // namespace tessera
