#include "parallel/gradient_reducer.h"

#include <algorithm>

#include "core/error.h"
#include "parallel/traffic.h"

namespace tessera {

GradientReducer::GradientReducer(const ParameterStore& store, Communicator& dp,
                                 int64_t bucket_elements)
    : dp_(dp) {
  for (const Parameter& parameter : store.parameters()) parameters_.push_back(&parameter);
  bucket_of_.resize(parameters_.size());
  added_.assign(parameters_.size(), false);

  const Tensor flat = store.flat_grads();
  int64_t end = store.flat_size();
  int64_t members = 0;
  for (size_t i = parameters_.size(); i-- > 0;) {
    const int64_t begin = parameters_[i]->offset;
    bucket_of_[i] = buckets_.size();
    ++members;
    if (end - begin < bucket_elements && i > 0) continue;
    buckets_.push_back({flat.slice(begin, end), members, members});
    end = begin;
    members = 0;
  }
  pending_.reserve(buckets_.size());
}

void GradientReducer::add(const Parameter& parameter) {
  // Parameters are few and their offsets ascend.
  const auto found = std::lower_bound(
      parameters_.begin(), parameters_.end(), parameter.offset,
      [](const Parameter* candidate, int64_t offset) { return candidate->offset < offset; });
  require(found != parameters_.end() && *found == &parameter,
          "gradient reducer: parameter {} is not of its store", parameter.name);
  const auto index = static_cast<size_t>(found - parameters_.begin());
  require(!added_[index], "gradient reducer: parameter {} was added twice in a step",
          parameter.name);
  added_[index] = true;
  Bucket& bucket = buckets_[bucket_of_[index]];
  if (--bucket.missing == 0 && dp_.size() > 1) {
    const TrafficScope traffic(Traffic::gradients);
    pending_.push_back(dp_.all_reduce_async(bucket.grads));
  } else {
    progress();
  }
}

void GradientReducer::progress() {
  for (const auto& collective : pending_) collective->progress();
}

void GradientReducer::finalize() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    require(added_[i], "gradient reducer: the backward pass never finished parameter {}",
            parameters_[i]->name);
  }
  for (const auto& collective : pending_) collective->wait();
  pending_.clear();
  added_.assign(added_.size(), false);
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
}

}  // namespace tessera
