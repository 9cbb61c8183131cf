#include "parallel/gradient_norm.h"

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "parallel/traffic.h"

namespace tessera {

GradientNorm::GradientNorm(const ParameterStore& store, Communicator& tp) : tp_(tp) {
  const auto counts = [&](const Parameter& p) { return !p.shard.replicated() || tp.rank() == 0; };
  for (const auto& [range, counted] : store.ranges_by(counts)) {
    if (counted) counted_.push_back(store.flat_grads().slice(range.begin, range.end));
  }
}

void GradientNorm::sum_squares(Tensor squares) const {
  fill(squares, 0.0);
  for (const Tensor& grads : counted_) add_sum_of_squares(grads, squares);
  const TrafficScope traffic(Traffic::norm);
  tp_.all_reduce(squares);
}

}  // namespace tessera
