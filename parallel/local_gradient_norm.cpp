#include "parallel/local_gradient_norm.h"

#include <algorithm>

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "parallel/communicators/traffic.h"
#include "parallel/partial_gradients.h"

namespace tessera {

LocalGradientNorm::LocalGradientNorm(const ParameterStore& store, const ParallelGroups& groups)
    : groups_(groups) {
  int64_t longest = 0;
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.frozen || parameter.grad().numel() == 0) continue;
    const Tensor grads = parameter.grad().view({parameter.grad().numel()});
    const bool is_sharded = !parameter.replicated_over().contains(Axis::tensor);
    const bool counts = groups.cp->rank() == 0 && (is_sharded || groups.tp->rank() == 0);
    std::vector<Communicator*> over;
    for (const auto& [axis, group] :
         {std::pair(Axis::tensor, groups.tp.get()), std::pair(Axis::context, groups.cp.get())}) {
      if (group->size() > 1 && parameter.partial_over.contains(axis)) over.push_back(group);
    }
    if (!over.empty()) {
      partial_.push_back({grads, over, counts});
      longest = std::max(longest, grads.numel());
    } else if (counts) {
      counted_.push_back(grads);
    }
  }
  if (longest == 0) return;
  copy_ = OwnedTensor({std::min(longest, PartialGradients::kAlone)}, DType::f32, store.device());
}

void LocalGradientNorm::sum_squares(Tensor squares) const {
  fill(squares, 0.0);
  for (const Tensor& grads : counted_) add_sum_of_squares(grads, squares);
  for (const Partial& partial : partial_) add_partial(partial, squares);
  const TrafficScope traffic(Traffic::norm);
  groups_.world.all_reduce(squares);
}

void LocalGradientNorm::add_partial(const Partial& partial, Tensor squares) const {
  const TrafficScope traffic(Traffic::gradients);
  const int64_t most = copy_.tensor.numel(), all = partial.grads.numel();
  for (int64_t begin = 0; begin < all; begin += most) {
    const int64_t end = std::min(all, begin + most);
    const Tensor piece = copy_.tensor.slice(0, end - begin);
    copy(partial.grads.slice(begin, end), piece);
    for (Communicator* group : partial.over) group->all_reduce(piece);
    if (partial.counts) add_sum_of_squares(piece, squares);
  }
}

}  // namespace tessera
