#include "parallel/gradient_reducer.h"

#include <algorithm>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/traffic.h"

namespace tessera {

GradientReducer::GradientReducer(const ParameterStore& store, const ParallelGroups& groups,
                                 DType dtype)
    : store_(store), shards_(*groups.shards), copies_(*groups.copies) {
  require(dtype == DType::f32 || dtype == DType::bf16,
          "gradient reducer: gradients are reduced in fp32 or bf16, not in {}", to_string(dtype));
  groups.require_shards_of(store, "gradient reducer");
  for (const Parameter& parameter : store.parameters()) parameters_.push_back(&parameter);
  forget();
  reductions_.reserve(missing_.size());
  if (dtype == DType::f32) return;
  int64_t begin = 0;
  for (const FlatBucket& bucket : store.layout().buckets()) {
    rounded_begin_.push_back(begin);
    begin += bucket.shards_gradients() ? 0 : bucket.elements.size();
  }
  const MemoryUse use("copies of gradients in bf16", "choose fp32 as parallel.grad_reduce_dtype");
  rounded_ = OwnedTensor({begin}, dtype, store.device());
}

size_t GradientReducer::copy_bytes(const ParameterStore& store, DType dtype) {
  size_t bytes = 0;
  for (const FlatBucket& bucket : store.layout().buckets()) {
    if (dtype == DType::f32 || bucket.shards_gradients()) continue;
    bytes += static_cast<size_t>(bucket.elements.size()) * size_of(dtype);
  }
  return bytes;
}

void GradientReducer::forget() {
  added_.assign(parameters_.size(), false);
  missing_.clear();
  for (const FlatBucket& bucket : store_.layout().buckets()) {
    missing_.push_back(bucket.parameters.size());
  }
}

void GradientReducer::add(const Parameter& parameter, PassRecorder* recorder) {
  const size_t index = parameter.index;
  require(index < parameters_.size() && parameters_[index] == &parameter,
          "gradient reducer: parameter {} is not of its store", parameter.name);
  require(!added_[index], "gradient reducer: parameter {} was added twice in a step",
          parameter.name);
  require(!parameter.grad_is_invalid,
          "gradient reducer: parameter {} has no gradient: its layer's backward added none",
          parameter.name);
  added_[index] = true;
  const size_t bucket = store_.layout().bucket_of(index);
  const bool is_full = --missing_[bucket] == 0;
  if (!is_full || !sums(bucket)) return progress();
  if (recorder == nullptr) return start(bucket);
  recorder->add([this, bucket] { start(bucket); });
}

// A launched pass calls only the start of buckets, so nothing is added to others.
bool GradientReducer::sums(size_t bucket) const {
  const FlatBucket& place = store_.layout().buckets()[bucket];
  return !place.elements.empty() && !place.shards_gradients();
}

void GradientReducer::start(size_t bucket) {
  const FlatBucket& all = store_.layout().buckets()[bucket];
  std::fill(added_.begin() + all.parameters.begin, added_.begin() + all.parameters.end, true);
  if (shards_.size() * copies_.size() == 1) return;
  progress();
  const TrafficScope traffic(Traffic::gradients);
  reductions_.push_back({bucket, sum(bucket)});
}

Tensor GradientReducer::reduced(size_t bucket, Range elements) const {
  const FlatBucket& all = store_.layout().buckets()[bucket];
  if (!reduces_copies()) return store_.grads_in(all, elements);
  const int64_t shift = rounded_begin_[bucket] - all.elements.begin;
  return rounded_.tensor.slice(elements.begin + shift, elements.end + shift);
}

std::unique_ptr<PendingCollective> GradientReducer::sum(size_t bucket) const {
  const FlatBucket& place = store_.layout().buckets()[bucket];
  const Tensor all = reduced(bucket, place.elements);
  if (reduces_copies()) copy(store_.grads_in(place, place.elements), all);
  if (shards_.size() == 1) return copies_.all_reduce_async(all);
  return shards_.reduce_scatter_async(all, reduced(bucket, place.shard));
}

void GradientReducer::progress() {
  for (const Reduction& reduction : reductions_) reduction.pending->progress();
}

void GradientReducer::finalize() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    require(added_[i] || !sums(store_.layout().bucket_of(i)),
            "gradient reducer: the backward pass never finished parameter {}",
            parameters_[i]->name);
  }
  const TrafficScope traffic(Traffic::gradients);
  for (Reduction& reduction : reductions_) {
    reduction.pending->wait();
    if (shards_.size() == 1 || copies_.size() == 1) continue;
    const Range own = store_.layout().buckets()[reduction.bucket].shard;
    reduction.pending = copies_.all_reduce_async(reduced(reduction.bucket, own));
  }
  for (const Reduction& reduction : reductions_) {
    reduction.pending->wait();
    if (!reduces_copies()) continue;
    const FlatBucket& bucket = store_.layout().buckets()[reduction.bucket];
    copy(reduced(reduction.bucket, bucket.shard), store_.grads_in(bucket, bucket.shard));
  }
  reductions_.clear();
  forget();
}

}  // namespace tessera
