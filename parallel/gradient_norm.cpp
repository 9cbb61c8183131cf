#include "parallel/gradient_norm.h"

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "parallel/communicators/traffic.h"

namespace tessera {

GradientNorm::GradientNorm(const ParameterStore& store, const ParallelGroups& groups)
    : world_(groups.world) {
  groups.require_shards_of(store, "gradient norm");
  const auto counts = [&](const Parameter& p) { return groups.counts_here(p); };
  for (const ShardRange& range : store.shard_ranges_by(counts)) {
    if (range.property) counted_.push_back(store.grads_of(range));
  }
}

void GradientNorm::sum_squares(Tensor squares) const {
  fill(squares, 0.0);
  for (const Tensor& grads : counted_) add_sum_of_squares(grads, squares);
  const TrafficScope traffic(Traffic::norm);
  world_.all_reduce(squares);
}

}  // namespace tessera
