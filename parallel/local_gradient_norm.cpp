#include "parallel/local_gradient_norm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "parallel/communicators/traffic.h"
#include "parallel/partial_gradients.h"

namespace tessera {
namespace {

/// The groups of several ranks, but for the data ranks, that have parts of a parameter's gradient.
std::vector<Communicator*> groups_with_parts(const Parameter& parameter,
                                             const ParallelGroups& groups) {
  std::vector<Communicator*> found;
  for (const auto& [axis, group] :
       {std::pair(Axis::tensor, groups.tp.get()), std::pair(Axis::context, groups.cp.get())}) {
    if (group->size() > 1 && parameter.partial_over.contains(axis)) found.push_back(group);
  }
  return found;
}

}  // namespace

LocalGradientNorm::LocalGradientNorm(const ParameterStore& store, const ParallelGroups& groups)
    : store_(store), groups_(groups) {
  int64_t longest = 0;
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.frozen || groups_with_parts(parameter, groups).empty()) continue;
    longest = std::max(longest, parameter.local_shape.numel());
  }
  if (longest == 0) return;
  copy_ = OwnedTensor({std::min(longest, PartialGradients::kAlone)}, DType::f32, store.device());
}

void LocalGradientNorm::add(const Parameter& parameter, const Tensor& squares) const {
  const TrafficScope traffic(Traffic::gradients);
  const bool is_sharded = !parameter.replicated_over().contains(Axis::tensor);
  const bool counts = groups_.cp->rank() == 0 && (is_sharded || groups_.tp->rank() == 0);
  const int64_t all = parameter.local_shape.numel();
  if (all == 0) return;
  const Tensor grads = parameter.grad().view({all});
  const std::vector<Communicator*> over = groups_with_parts(parameter, groups_);
  if (over.empty()) {
    if (counts) add_sum_of_squares(grads, squares);
    return;
  }
  const int64_t most = copy_.tensor.numel();
  for (int64_t begin = 0; begin < all; begin += most) {
    const int64_t end = std::min(all, begin + most);
    const Tensor piece = copy_.tensor.slice(0, end - begin);
    copy(grads.slice(begin, end), piece);
    for (Communicator* group : over) group->all_reduce(piece);
    if (counts) add_sum_of_squares(piece, squares);
  }
}

void LocalGradientNorm::finish(const Tensor& squares) const {
  for (const Parameter& parameter : store_.parameters()) {
    if (!parameter.frozen && store_.keeps_gradients(parameter)) add(parameter, squares);
  }
  const TrafficScope traffic(Traffic::norm);
  groups_.world.all_reduce(squares);
}

}  // namespace tessera
