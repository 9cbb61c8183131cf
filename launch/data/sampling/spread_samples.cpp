#include "launch/data/sampling/spread_samples.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "launch/data/sampling/sample_order.h"

namespace tessera {
namespace {

__extension__ using int128 = __int128;

}  // namespace

SpreadSamples::SpreadSamples(std::shared_ptr<const Dataset> all, int64_t count)
    : all_(std::move(all)), count_(std::min(count, all_->num_samples())) {
  require(count >= 1, "{} samples of a dataset were asked for, but there must be at least 1",
          count);
}

int64_t SpreadSamples::place_of(int64_t sample) const {
  require(0 <= sample && sample < count_, "there is no sample {} among {}", sample, count_);
  const auto begin_of = [&](int64_t part) {
    return static_cast<int64_t>(int128{part} * all_->num_samples() / count_);
  };
  const int64_t begin = begin_of(sample);
  return begin + permuted(static_cast<uint64_t>(sample), 0, begin_of(sample + 1) - begin, 0);
}

}  // namespace tessera
