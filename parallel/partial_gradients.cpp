#include "parallel/partial_gradients.h"

#include <numeric>

#include "core/ops/elementwise.h"
#include "parallel/communicators/traffic.h"

namespace tessera {
namespace {

int64_t count(const std::vector<Tensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), int64_t{0},
                         [](int64_t sum, const Tensor& tensor) { return sum + tensor.numel(); });
}

}  // namespace

PartialGradients::PartialGradients(const ParameterStore& store, Communicator& tp) : tp_(tp) {
  const auto is_partial = [](const Parameter& p) { return p.partial_over.contains(Axis::tensor); };
  for (const ShardRange& range : store.shard_ranges_by(is_partial)) {
    if (!range.property) continue;
    (range.elements.size() < kAlone ? together_ : alone_).push_back(store.grads_of(range));
  }
}

void PartialGradients::sum(Arena& arena) const {
  const TrafficScope traffic(Traffic::gradients);
  std::vector<std::unique_ptr<PendingCollective>> pending;
  for (const Tensor& grads : alone_) pending.push_back(tp_.all_reduce_async(grads));

  const Arena::Scope scope(arena);
  const Tensor copies = arena.allocate({count(together_)}, DType::f32);
  const auto for_each_copy = [&](auto&& body) {
    int64_t begin = 0;
    for (const Tensor& grads : together_) {
      body(grads, copies.slice(begin, begin + grads.numel()));
      begin += grads.numel();
    }
  };
  for_each_copy([](const Tensor& grads, const Tensor& its_copy) { copy(grads, its_copy); });
  tp_.all_reduce(copies);
  for_each_copy([](const Tensor& grads, const Tensor& its_copy) { copy(its_copy, grads); });
  for (const auto& collective : pending) collective->wait();
}

int64_t PartialGradients::num_elements() const { return count(alone_) + count(together_); }

}  // namespace tessera
