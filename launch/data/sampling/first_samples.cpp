#include "launch/data/sampling/first_samples.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace tessera {

FirstSamples::FirstSamples(std::shared_ptr<const Dataset> all, int64_t most)
    : all_(std::move(all)), num_samples_(std::min(most, all_->num_samples())) {
  require(most >= 1, "the number of first samples of a dataset is {}, but must be at least 1",
          most);
}

}  // namespace tessera
