#pragma once

#include "core/parameters/flat_layout.h"
#include "launch/config/run_config.h"
#include "launch/data/loading/batch_buffers.h"
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

/// The micro-batches of an evaluation, which are cut over the context ranks.
inline BatchShape evaluation_shape(const RunConfig& config, const ParallelGroups& groups) {
  BatchShape shape = batch_shape(config.batch.micro, config.model, config.mlm);
  if (groups.cp->size() > 1) {
    shape.context = context_shape(config.model, groups.cp->size(), groups.cp->rank());
  }
  return shape;
}

/// The same of a step on `device`. GPUs get few sizes of token batches (padded_sizes()), also
/// without CUDA graphs, so that these change no bit. Batches that are cut get no padding, which
/// would all be on one rank.
inline BatchShape training_shape(const RunConfig& config, const ParallelGroups& groups,
                                 Device device) {
  BatchShape shape = evaluation_shape(config, groups);
  shape.repeats_sizes = device.is_cuda() && groups.cp->size() == 1 && shape.label_width == 0 &&
                        shape.patch_width == 0 && shape.source_length == 0 &&
                        traits_of(config.model).texts_of_sample == 0;
  return shape;
}

/// How tensor ranks share activations.
inline SequenceShard sequence_shard(const ParallelSection& parallel, const ParallelGroups& groups) {
  if (!parallel.sequence) return {};
  return {groups.tp->size(), groups.tp->rank()};
}

}  // namespace tessera
