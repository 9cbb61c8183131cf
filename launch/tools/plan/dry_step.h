#pragma once

#include "core/trace/work_log.h"
#include "launch/config/run_config.h"
#include "launch/metrics/evaluation.h"
#include "parallel/meta_communicator.h"

namespace tessera {

/// The counts of a step of `config`'s run with a full batch: rows of seq_length tokens, each one
/// document. Every token has a target; for BERT, mlm.probability × seq_length of a row, rounded and
/// at least one. Every row has a label if the model has a head for it.
TargetCounts full_batch_counts(const RunConfig& config);

/// Runs a step of `config`'s run like Trainer::step(), with full batches on the meta device:
/// micro-batches, sums of gradients and losses, norm and update. Adds its traffic to the tallies of
/// `groups`, which must be unused, and its work on a GPU to `work`, unless that is null.
void dry_run_step(const RunConfig& config, MetaGroups& groups, WorkLog* work = nullptr);

}  // namespace tessera
