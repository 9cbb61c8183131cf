#include "launch/train/optimizer.h"

#include "core/error.h"
#include "parallel/traffic.h"

namespace tessera {

Optimizer::Optimizer(const OptimizerSection& settings, ParameterStore& store, Communicator* dp)
    : settings_(settings),
      store_(store),
      owners_(store.layout().cut().shared() ? dp : nullptr),
      ranges_(store.owned_ranges_by([](const Parameter& p) { return p.decay; })) {
  const int owners = store.layout().cut().owners;
  require(owners == 1 || (dp != nullptr && dp->size() == owners),
          "optimizer: {} owners share the store, but they are not the data ranks", owners);
}

void Optimizer::step(int64_t step, double lr, const Tensor& grad_scale) {
  AdamW adamw;
  adamw.lr = static_cast<float>(lr);
  adamw.beta1 = static_cast<float>(settings_.betas[0]);
  adamw.beta2 = static_cast<float>(settings_.betas[1]);
  adamw.eps = static_cast<float>(settings_.eps);
  adamw.step = step + 1;
  if (owners_ == nullptr) {
    for (const OwnedRange& range : ranges_) update(range, adamw, grad_scale);
    return;
  }
  // In the order of the next forward pass, for which the first values are there first.
  std::vector<std::unique_ptr<PendingCollective>> gathers;
  const std::vector<FlatBucket>& buckets = store_.layout().buckets();
  auto range = ranges_.begin();
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    for (; range != ranges_.end() && range->bucket == bucket; ++range) {
      update(*range, adamw, grad_scale);
      for (const auto& pending : gathers) pending->progress();
    }
    gathers.push_back(gather(buckets[bucket]));
  }
  for (const auto& pending : gathers) pending->wait();
}

void Optimizer::update(const OwnedRange& range, AdamW adamw, const Tensor& grad_scale) const {
  const OwnedRun& run = range.run;
  adamw.weight_decay = range.property ? static_cast<float>(settings_.weight_decay) : 0.0f;
  adamw_step(adamw, grad_scale, run.grad, run.exp_avg, run.exp_avg_sq, run.master, run.value);
}

std::unique_ptr<PendingCollective> Optimizer::gather(const FlatBucket& bucket) const {
  const Tensor flat = store_.flat_values();
  const TrafficScope traffic(Traffic::weights);
  return owners_->all_gather_async(flat.slice(bucket.owned.begin, bucket.owned.end),
                                   flat.slice(bucket.elements.begin, bucket.elements.end));
}

}  // namespace tessera
