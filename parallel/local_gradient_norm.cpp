#include "parallel/local_gradient_norm.h"

#include <algorithm>

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "parallel/communicators/traffic.h"
#include "parallel/partial_gradients.h"

namespace tessera {

LocalGradientNorm::LocalGradientNorm(const ParameterStore& store, Communicator& tp,
                                     Communicator& dp, bool sequence_parallel)
    : tp_(tp), dp_(dp) {
  int64_t longest = 0;
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.frozen || parameter.grad.numel() == 0) continue;
    const Tensor grads = parameter.grad.view({parameter.grad.numel()});
    if (tp.size() > 1 && is_partial_gradient(parameter, sequence_parallel)) {
      partial_.push_back(grads);
      longest = std::max(longest, grads.numel());
    } else if (!parameter.shard.replicated() || tp.rank() == 0) {
      counted_.push_back(grads);
    }
  }
  if (longest == 0) return;
  copy_ = OwnedTensor({std::min(longest, PartialGradients::kAlone)}, DType::f32, store.device());
}

void LocalGradientNorm::sum_squares(Tensor squares) const {
  fill(squares, 0.0);
  for (const Tensor& grads : counted_) add_sum_of_squares(grads, squares);
  for (const Tensor& grads : partial_) add_partial(grads, squares);
  const TrafficScope traffic(Traffic::norm);
  tp_.all_reduce(squares);
  dp_.all_reduce(squares);
}

void LocalGradientNorm::add_partial(const Tensor& grads, Tensor squares) const {
  const TrafficScope traffic(Traffic::gradients);
  const int64_t most = copy_.tensor.numel();
  for (int64_t begin = 0; begin < grads.numel(); begin += most) {
    const int64_t end = std::min(grads.numel(), begin + most);
    const Tensor piece = copy_.tensor.slice(0, end - begin);
    copy(grads.slice(begin, end), piece);
    tp_.all_reduce(piece);
    if (tp_.rank() == 0) add_sum_of_squares(piece, squares);
  }
}

}  // namespace tessera
