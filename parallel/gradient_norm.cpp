#include "parallel/gradient_norm.h"

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "parallel/communicators/traffic.h"

namespace tessera {

GradientNorm::GradientNorm(const ParameterStore& store, Communicator& tp, Communicator* dp)
    : tp_(tp), owners_(store.layout().sharding().sharded() ? dp : nullptr) {
  const int owners = store.layout().sharding().num_shards;
  require(owners == 1 || (dp != nullptr && dp->size() == owners),
          "gradient norm: the store has {} optimizer shards, which does not match the data ranks",
          owners);
  const auto counts = [&](const Parameter& p) { return !p.shard.replicated() || tp.rank() == 0; };
  for (const ShardRange& range : store.shard_ranges_by(counts)) {
    if (range.property) counted_.push_back(range.shard.grad);
  }
}

void GradientNorm::sum_squares(Tensor squares) const {
  fill(squares, 0.0);
  for (const Tensor& grads : counted_) add_sum_of_squares(grads, squares);
  const TrafficScope traffic(Traffic::norm);
  if (owners_ != nullptr) owners_->all_reduce(squares);
  tp_.all_reduce(squares);
}

}  // namespace tessera
