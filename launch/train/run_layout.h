#pragma once

#include "core/parameters/flat_layout.h"
#include "launch/config/sections.h"
#include "parallel/process_grid.h"
#include "parallel/sequence_shard.h"

namespace tessera {

/// How ranks share trained parameters.
inline OptimizerSharding sharding_of_trained(const ParallelSection& parallel,
                                             const ParallelGroups& groups) {
  const Communicator& group = *groups.shards;
  return {.num_shards = group.size(),
          .shard = group.rank(),
          .shards_gradients = parallel.zero >= 2,
          .shards_values = parallel.zero >= 3};
}

/// How ranks share frozen parameters: all replicas the fp32 masters, or `groups.shards` these and
/// the values.
inline OptimizerSharding sharding_of_frozen(const ParallelSection& parallel,
                                            const ParallelGroups& groups) {
  const bool shards_values = parallel.zero >= 3;
  const Communicator& group = shards_values ? *groups.shards : *groups.replicas;
  return {.num_shards = group.size(), .shard = group.rank(), .shards_values = shards_values};
}

/// How tensor ranks share activations.
inline SequenceShard sequence_shard(const ParallelSection& parallel, const ParallelGroups& groups) {
  if (!parallel.sequence) return {};
  return {groups.tp->size(), groups.tp->rank()};
}

}  // namespace tessera
