#include "parallel/sharded_units.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/traffic.h"

namespace tessera {
namespace {

constexpr size_t kSlots = 2;

size_t bytes_of(Range elements, DType dtype) {
  return static_cast<size_t>(elements.size()) * size_of(dtype);
}

/// Runs `action` now or, in a captured pass, whenever it is launched.
void act(const StepContext& ctx, PassRecorder::Action action) {
  if (ctx.recorder != nullptr) return ctx.recorder->add(std::move(action));
  action();
}

}  // namespace

ShardedUnits::ShardedUnits(ParameterStore& store, const ParallelGroups& groups, DType reduce_dtype)
    : store_(store),
      shards_(*groups.shards),
      copies_(*groups.copies),
      reduce_dtype_(reduce_dtype),
      has_sum_(store.units().size()),
      copied_(store.units().size()) {
  groups.require_shards_of(store, "sharded units");
  size_t trained = 0, frozen = 0, gradients = 0, rounded = 0;
  for (size_t unit = 0; unit < store.units().size(); ++unit) {
    const ParameterStore::UnitElements elements = store.elements_of(unit);
    if (!store.keeps_values(unit)) {
      trained = std::max(trained, bytes_of(elements.trained, store.precision()));
      frozen = std::max(frozen, bytes_of(elements.frozen, store.precision()));
    }
    if (!shards_gradients(unit)) continue;
    gradients = std::max(gradients, bytes_of(elements.trained, DType::f32));
    if (reduce_dtype != DType::f32) {
      rounded = std::max(rounded, bytes_of(elements.trained, reduce_dtype));
    }
  }
  if (trained + frozen > 0) {
    const MemoryUse use("gathered weights");
    for (size_t i = 0; i < kSlots; ++i) {
      values_.push_back(
          {Buffer(trained, store.device()), Buffer(frozen, store.device()), {}, {}, {}});
    }
  }
  if (gradients == 0) return;
  const MemoryUse use("gradients of two blocks");
  for (size_t i = 0; i < kSlots; ++i) {
    GradientSlot& slot = gradients_.emplace_back();
    slot.gradients = Buffer(gradients, store.device());
    slot.rounded = Buffer(rounded, store.device());
  }
}

size_t ShardedUnits::value_bytes() const {
  size_t bytes = 0;
  for (const ValueSlot& slot : values_) bytes += slot.trained.bytes() + slot.frozen.bytes();
  return bytes;
}

size_t ShardedUnits::gradient_bytes() const {
  size_t bytes = 0;
  for (const GradientSlot& slot : gradients_)
    bytes += slot.gradients.bytes() + slot.rounded.bytes();
  return bytes;
}

const FlatBucket& ShardedUnits::bucket_of(size_t unit) const {
  const auto first = static_cast<size_t>(store_.units()[unit].parameters.begin);
  return store_.layout().buckets()[store_.layout().bucket_of(first)];
}

UnitValues ShardedUnits::values_in(const ValueSlot& slot, size_t unit) const {
  const ParameterStore::UnitElements elements = store_.elements_of(unit);
  return {slot.trained.tensor({elements.trained.size()}, store_.precision()),
          slot.frozen.tensor({elements.frozen.size()}, store_.precision())};
}

Tensor ShardedUnits::gradients_in(const GradientSlot& slot, size_t unit) const {
  return slot.gradients.tensor({bucket_of(unit).elements.size()}, DType::f32);
}

Tensor ShardedUnits::reduced_in(const GradientSlot& slot, size_t unit) const {
  if (reduce_dtype_ == DType::f32) return gradients_in(slot, unit);
  return slot.rounded.tensor({bucket_of(unit).elements.size()}, reduce_dtype_);
}

Tensor ShardedUnits::shard_of_gradients(size_t unit) const {
  const FlatBucket& bucket = bucket_of(unit);
  return store_.grads_in(bucket, bucket.shard);
}

void ShardedUnits::begin(const StepContext& ctx, const UnitUse& use) {
  const bool values = !store_.keeps_values(use.unit);
  const bool gradients = use.backward && shards_gradients(use.unit);
  if (!values && !gradients) return;
  act(ctx, [this, use] { arrive(use); });
  if (values) store_.place_values(use.unit, values_in(values_[use.unit % kSlots], use.unit));
  if (!gradients) return;
  store_.place_gradients(use.unit, gradients_in(gradients_[use.unit % kSlots], use.unit));
  store_.invalidate_grads(use.unit);
}

void ShardedUnits::end(const StepContext& ctx, const UnitUse& use) {
  if (!store_.keeps_values(use.unit)) store_.release_values(use.unit);
  if (!use.backward || !shards_gradients(use.unit)) return;
  const Range parameters = store_.units()[use.unit].parameters;
  for (int64_t i = parameters.begin; i < parameters.end; ++i) {
    const Parameter& parameter = store_.parameters()[static_cast<size_t>(i)];
    require(!parameter.grad_is_invalid, "the backward pass of {} gave {} no gradient",
            store_.units()[use.unit].name, parameter.name);
  }
  store_.place_gradients(use.unit, {});
  act(ctx, [this, unit = use.unit, last = ctx.reducer != nullptr] { reduce(unit, last); });
}

void ShardedUnits::arrive(const UnitUse& use) {
  if (!store_.keeps_values(use.unit)) {
    gather(use.unit);
    ValueSlot& slot = values_[use.unit % kSlots];
    for (Pending* pending : {&slot.pending_trained, &slot.pending_frozen}) {
      if (*pending) std::exchange(*pending, {})->wait();
    }
  }
  if (use.next && !store_.keeps_values(*use.next)) gather(*use.next);
  if (use.backward && shards_gradients(use.unit)) {
    GradientSlot& slot = gradients_[use.unit % kSlots];
    settle(slot);
    clear_gaps(slot, use.unit);
  }
}

void ShardedUnits::clear_gaps(GradientSlot& slot, size_t unit) {
  const auto places = [&](size_t of) {
    const Range parameters = store_.units()[of].parameters;
    std::vector<Range> found;
    for (int64_t i = parameters.begin; i < parameters.end; ++i) {
      const Parameter& parameter = store_.parameters()[static_cast<size_t>(i)];
      if (parameter.frozen) continue;
      const int64_t begin = parameter.offset - bucket_of(of).elements.begin;
      found.push_back({begin, begin + parameter.local_shape.numel()});
    }
    return found;
  };
  const std::optional<size_t> before = std::exchange(slot.like, unit);
  if (before && (before == unit || places(*before) == places(unit))) return;
  fill(gradients_in(slot, unit), 0.0);
}

void ShardedUnits::gather(size_t unit) {
  ValueSlot& slot = values_[unit % kSlots];
  if (slot.unit == unit) return;
  slot.unit = unit;
  const TrafficScope traffic(Traffic::weights);
  const auto first = static_cast<size_t>(store_.units()[unit].parameters.begin);
  const UnitValues values = values_in(slot, unit);
  const FlatBucket& trained = bucket_of(unit);
  const FlatLayout& layout = store_.frozen_layout();
  const FlatBucket& frozen = layout.buckets()[layout.bucket_of(first)];
  slot.pending_trained =
      shards_.all_gather_async(store_.values_in(trained, trained.shard), values.trained);
  slot.pending_frozen =
      shards_.all_gather_async(store_.frozen_values_in(frozen, frozen.shard), values.frozen);
}

void ShardedUnits::forget_values() {
  for (ValueSlot& slot : values_) {
    slot.pending_trained.reset();  // waits
    slot.pending_frozen.reset();
    slot.unit.reset();
  }
}

void ShardedUnits::reduce(size_t unit, bool last) {
  GradientSlot& slot = gradients_[unit % kSlots];
  const Tensor gradients = gradients_in(slot, unit), reduced = reduced_in(slot, unit);
  if (observer_) {
    store_.place_gradients(unit, gradients);
    const Range parameters = store_.units()[unit].parameters;
    for (int64_t i = parameters.begin; i < parameters.end; ++i) {
      const Parameter& parameter = store_.parameters()[static_cast<size_t>(i)];
      if (!parameter.frozen) observer_(parameter);
    }
    store_.place_gradients(unit, {});
  }
  if (reduce_dtype_ != DType::f32) copy(gradients, reduced);
  const FlatBucket& bucket = bucket_of(unit);
  slot.unit = unit;
  slot.last = last;
  slot.direct = !has_sum_[unit] && reduce_dtype_ == DType::f32;
  const int64_t begin = bucket.shard.begin - bucket.elements.begin;
  const Tensor sum =
      slot.direct ? shard_of_gradients(unit) : reduced.slice(begin, begin + bucket.shard.size());
  const TrafficScope traffic(Traffic::gradients);
  slot.pending = shards_.reduce_scatter_async(reduced, sum);
}

void ShardedUnits::settle(GradientSlot& slot) {
  if (!slot.pending) return;
  std::exchange(slot.pending, {})->wait();
  const size_t unit = *std::exchange(slot.unit, {});
  if (!slot.direct) {
    const FlatBucket& bucket = bucket_of(unit);
    const int64_t begin = bucket.shard.begin - bucket.elements.begin;
    const auto own = [&](const Tensor& all) {
      return all.slice(begin, begin + bucket.shard.size());
    };
    const Tensor shard = shard_of_gradients(unit), sum = own(gradients_in(slot, unit));
    if (reduce_dtype_ != DType::f32) {
      copy(own(reduced_in(slot, unit)), has_sum_[unit] ? sum : shard);
    }
    if (has_sum_[unit]) add(shard, sum, shard);
  }
  has_sum_[unit] = true;
  if (slot.last) sum_copies(unit);
}

void ShardedUnits::sum_copies(size_t unit) {
  if (copies_.size() == 1) return;
  const TrafficScope traffic(Traffic::gradients);
  copied_[unit] = copies_.all_reduce_async(shard_of_gradients(unit));
}

void ShardedUnits::begin_step() {
  for (GradientSlot& slot : gradients_) {
    slot.pending.reset();  // of passes that were no step
    slot.unit.reset();
  }
  has_sum_.assign(has_sum_.size(), false);
}

void ShardedUnits::finish_step() {
  if (gradients_.empty()) return;
  // The last two blocks of the backward pass, in its order.
  std::vector<GradientSlot*> slots = {&gradients_[0], &gradients_[1]};
  std::ranges::sort(slots, std::greater<>(), &GradientSlot::unit);
  for (GradientSlot* slot : slots) settle(*slot);
  for (size_t unit = has_sum_.size(); unit-- > 0;) {
    if (has_sum_[unit] && !copied_[unit]) sum_copies(unit);
  }
  for (Pending& pending : copied_) {
    if (pending) std::exchange(pending, {})->wait();
  }
}

}  // namespace tessera
