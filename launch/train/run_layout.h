#pragma once

#include "core/parameters/flat_layout.h"
#include "launch/config/run_config.h"
#include "parallel/process_grid.h"
#include "parallel/sequence_shard.h"

namespace tessera {

/// How replicas share the store: with ZeRO each has a part of the optimizer state.
inline OptimizerSharding optimizer_sharding(const ParallelGroups& groups) {
  return {.num_shards = groups.shards->size(), .shard = groups.shards->rank()};
}

/// How tensor ranks share activations.
inline SequenceShard sequence_shard(const RunConfig& config, const ParallelGroups& groups) {
  if (!config.parallel.sequence) return {};
  return {groups.tp->size(), groups.tp->rank()};
}

}  // namespace tessera
