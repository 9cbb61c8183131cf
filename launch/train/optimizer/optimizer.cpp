#include "launch/train/optimizer/optimizer.h"

#include "core/error.h"
#include "core/ops/adamw.h"
#include "core/ops/elementwise.h"
#include "core/ops/ema.h"
#include "core/ops/lion.h"
#include "launch/train/optimizer/moment_parts.h"
#include "launch/train/optimizer/value_rounding.h"
#include "parallel/communicators/traffic.h"

namespace tessera {

Optimizer::Optimizer(const OptimizerSection& settings, OptimizerState& state,
                     const ParallelGroups& groups, uint64_t seed)
    : settings_(settings),
      groups_(optimizer_groups(settings, state.store())),
      state_(state),
      largest_moment_part_(largest_moment_part(state.store())),
      shards_(*groups.shards) {
  groups.require_shards_of(state.store(), "optimizer");
  add_updates(seed);
  if (settings.name == OptimizerName::muon) muon_.emplace(settings, groups_, state, groups, seed);
}

void Optimizer::add_updates(uint64_t seed) {
  const auto group_of = [&](const Parameter& p) { return groups_.group_of[p.index]; };
  const bool rounds_moments = state_.moment_dtype() == DType::bf16;
  if (!settings_.stochastic_rounding && state_.moment_dtype() == DType::f32) {
    for (const OptimizerRange& range : state_.ranges_by(group_of)) updates_.push_back({range});
    return;
  }
  // Skips gaps and padding: they stay zero.
  for (const Parameter& p : state_.store().parameters()) {
    const OptimizerShard& own = state_.of(p);
    if (p.frozen || own.elements.empty()) continue;
    updates_.push_back({{own, state_.store().layout().bucket_of(p.index), group_of(p)}});
    Update& update = updates_.back();
    if (settings_.stochastic_rounding) update.rounding = value_rounding(p, own.elements, seed);
    if (rounds_moments) update.moment_rounding = moment_rounding(p, own.elements, seed);
  }
}

void Optimizer::step(int64_t step, double lr, const Tensor& grad_scale, Arena* scratch) {
  if (muon_) {
    require(scratch != nullptr, "optimizer: Muon needs scratch memory");
    muon_->step(step, lr, grad_scale, *scratch);
  }
  for_each_update([&](const Update& range) {
    update(range, step, lr, grad_scale, scratch);
    const OptimizerShard& run = range.range.shard;
    if (run.ema.defined()) ema_step(settings_.ema_decay, grad_scale, run.master, run.ema);
  });
}

void Optimizer::update(const Update& update, int64_t step, double lr, const Tensor& grad_scale,
                       Arena* scratch) const {
  const OptimizerShard& run = update.range.shard;
  const OptimizerGroup& group = groups_.groups[static_cast<size_t>(update.range.property)];
  if (group.whole_matrices) return;
  const auto set = [&](auto& settings) {
    settings.lr = static_cast<float>(lr * group.lr_factor);
    settings.beta1 = static_cast<float>(settings_.betas[0]);
    settings.beta2 = static_cast<float>(settings_.betas[1]);
    settings.weight_decay = static_cast<float>(group.weight_decay);
    if (update.rounding) settings.rounding = at_step(*update.rounding, step + 1);
    if (update.moment_rounding) {
      settings.moment_rounding = at_step(*update.moment_rounding, step + 1);
    }
  };
  for_each_moment_part(
      largest_moment_part_, run, scratch, [&](Range part, const Tensor& m, const Tensor& v) {
        const auto of = [&](const Tensor& tensor) { return tensor.slice(part.begin, part.end); };
        const auto at_part = [&](auto& settings) {
          if (settings.rounding) settings.rounding->begin += part.begin;
        };
        if (settings_.name == OptimizerName::lion) {
          Lion lion;
          set(lion);
          at_part(lion);
          return lion_step(lion, grad_scale, of(run.grad), m, of(run.master), of(run.value));
        }
        AdamW adamw;
        set(adamw);
        at_part(adamw);
        adamw.eps = static_cast<float>(settings_.eps);
        adamw.step = step + 1;
        adamw_step(adamw, grad_scale, of(run.grad), m, v, of(run.master), of(run.value));
      });
}

void Optimizer::round_values(int64_t steps_done) {
  if (!settings_.stochastic_rounding && !swapped_) return;
  swapped_ = false;
  for_each_update([&](const Update& update) {
    const OptimizerShard& run = update.range.shard;
    if (update.rounding) {
      round_stochastically(run.master, at_step(*update.rounding, steps_done), run.value);
    } else {
      copy(run.master, run.value);
    }
  });
}

void Optimizer::swap_average() {
  require(state_.has_average(), "optimizer: the state keeps no average of the weights");
  for (const Update& update : updates_) {
    ema_swap(update.range.shard.master, update.range.shard.ema);
  }
  swapped_ = true;
}

template <typename Work>
void Optimizer::for_each_update(const Work& work) const {
  if (shards_.size() == 1) {
    for (const Update& update : updates_) work(update);
    return;
  }
  // In the order of the next forward pass, which needs the first values first.
  std::vector<std::unique_ptr<PendingCollective>> gathers;
  const std::vector<FlatBucket>& buckets = state_.store().layout().buckets();
  auto update = updates_.begin();
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    for (; update != updates_.end() && update->range.bucket == bucket; ++update) {
      work(*update);
      for (const auto& pending : gathers) pending->progress();
    }
    if (!buckets[bucket].shards_values()) gathers.push_back(gather(buckets[bucket]));
  }
  for (const auto& pending : gathers) pending->wait();
}

std::unique_ptr<PendingCollective> Optimizer::gather(const FlatBucket& bucket) const {
  const ParameterStore& store = state_.store();
  const TrafficScope traffic(Traffic::weights);
  return shards_.all_gather_async(store.values_in(bucket, bucket.shard),
                                  store.values_in(bucket, bucket.elements));
}

}  // namespace tessera
