#pragma once

#include "launch/config/run_config.h"
#include "launch/metrics/evaluation.h"
#include "parallel/meta_communicator.h"

namespace tessera {

/// What a step of `config`'s run counts if its batch is full: rows of seq_length tokens, each one
/// document. Every token has a target, of BERT's mlm.probability × seq_length in a row, rounded and
/// at least one; every row has a label where the model has a head for it.
TargetCounts full_batch_counts(const RunConfig& config);

/// Takes a step of `config`'s run as Trainer::step() does, on full batches on the meta device: the
/// model's micro-batches, the sums of gradients and losses, norm and update. Adds what it exchanges
/// to the tallies of `groups`, which have exchanged nothing before.
void dry_run_step(const RunConfig& config, MetaGroups& groups);

}  // namespace tessera
