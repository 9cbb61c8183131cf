#pragma once

#include "core/parameters/flat_layout.h"
#include "launch/config/run_config.h"
#include "parallel/process_grid.h"
#include "parallel/sequence_shard.h"

namespace tessera {

/// How the ranks of a group share parameters: `groups.shards` what the optimizer keeps of trained
/// ones, and the replicas that of frozen ones.
inline OptimizerSharding sharding_over(const Communicator& group) {
  return {.num_shards = group.size(), .shard = group.rank()};
}

/// How tensor ranks share activations.
inline SequenceShard sequence_shard(const RunConfig& config, const ParallelGroups& groups) {
  if (!config.parallel.sequence) return {};
  return {groups.tp->size(), groups.tp->rank()};
}

}  // namespace tessera
