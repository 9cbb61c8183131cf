#include "parallel/gradient_reducer.h"

#include <algorithm>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/traffic.h"

namespace tessera {

GradientReducer::GradientReducer(const ParameterStore& store, Communicator& replicas, DType dtype)
    : store_(store), replicas_(replicas) {
  require(dtype == DType::f32 || dtype == DType::bf16,
          "gradient reducer: gradients are reduced in fp32 or bf16, not in {}", to_string(dtype));
  const OptimizerSharding& sharding = store.layout().sharding();
  require(!sharding.sharded() ||
              (sharding.num_shards == replicas.size() && sharding.shard == replicas.rank()),
          "gradient reducer: the store has optimizer shard {} of {}, but this is replica {} of {}",
          sharding.shard, sharding.num_shards, replicas.rank(), replicas.size());
  for (const Parameter& parameter : store.parameters()) parameters_.push_back(&parameter);
  forget();
  reductions_.reserve(missing_.size());
  if (dtype == DType::f32) return;
  const MemoryUse use("copies of gradients in bf16", "choose fp32 as parallel.grad_reduce_dtype");
  copies_ = OwnedTensor({store.flat_size()}, dtype, store.device());
}

size_t GradientReducer::copy_bytes(const ParameterStore& store, DType dtype) {
  return dtype == DType::f32 ? 0 : static_cast<size_t>(store.flat_size()) * size_of(dtype);
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
  if (!is_full || store_.layout().buckets()[bucket].elements.empty()) return progress();
  if (recorder == nullptr) return start(bucket);
  recorder->add([this, bucket] { start(bucket); });
}

void GradientReducer::start(size_t bucket) {
  const FlatBucket& all = store_.layout().buckets()[bucket];
  std::fill(added_.begin() + all.parameters.begin, added_.begin() + all.parameters.end, true);
  if (replicas_.size() == 1) return;
  progress();
  const TrafficScope traffic(Traffic::gradients);
  reductions_.push_back({bucket, sum(all)});
}

std::unique_ptr<PendingCollective> GradientReducer::sum(const FlatBucket& bucket) const {
  const Tensor flat = reduces_copies() ? copies_.tensor : store_.flat_grads();
  const Tensor all = flat.slice(bucket.elements.begin, bucket.elements.end);
  if (reduces_copies()) {
    copy(store_.flat_grads().slice(bucket.elements.begin, bucket.elements.end), all);
  }
  if (bucket.num_shards == 1) return replicas_.all_reduce_async(all);
  return replicas_.reduce_scatter_async(all, flat.slice(bucket.shard.begin, bucket.shard.end));
}

void GradientReducer::take_sums(const FlatBucket& bucket) const {
  const Range mine = bucket.shard;
  copy(copies_.tensor.slice(mine.begin, mine.end), store_.flat_grads().slice(mine.begin, mine.end));
}

void GradientReducer::progress() {
  for (const Reduction& reduction : reductions_) reduction.pending->progress();
}

void GradientReducer::finalize() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    require(added_[i], "gradient reducer: the backward pass never finished parameter {}",
            parameters_[i]->name);
  }
  for (const Reduction& reduction : reductions_) {
    reduction.pending->wait();
    if (reduces_copies()) take_sums(store_.layout().buckets()[reduction.bucket]);
  }
  reductions_.clear();
  forget();
}

}  // namespace tessera
