#include "launch/tools/plan/dry_step.h"

#include <algorithm>
#include <cmath>

#include "launch/data/loading/batch_buffers.h"
#include "launch/train/dry_run.h"
#include "models/architecture.h"

namespace tessera {
namespace {

int64_t targets_of_row(const RunConfig& config) {
  const int64_t seq_length = config.model.seq_length;
  switch (traits_of(config.model).objective) {
    case Objective::causal_lm:
    case Objective::token_classification:  // as if each token were a word
      return seq_length;
    case Objective::masked_lm:
      return std::clamp<int64_t>(
          std::llround(config.mlm.probability * static_cast<double>(seq_length)), 1, seq_length);
    case Objective::classification:
      break;
  }
  return 0;
}

/// A data rank's micro-batch in which each row is one document.
TokenBatch full_micro_batch(const RunConfig& config) {
  const int64_t rows = config.batch.micro;
  TokenBatch batch =
      full_batch_on_meta(rows, config.model.seq_length, traits_of(config.model).label_width);
  batch.documents = batch.documents.slice(0, rows + 1);
  batch.document_length = config.model.seq_length;
  batch.labels = batch.labels.slice(0, rows);
  batch.target_rows = batch.target_rows.slice(0, rows * targets_of_row(config));
  batch.targets = batch.targets.slice(0, rows * targets_of_row(config));
  return batch;
}

}  // namespace

TargetCounts full_batch_counts(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const int64_t rows = config.batch.global;
  const bool labels = traits_of(model).document_labels;
  TargetCounts counts;
  counts.tokens = rows * model.seq_length;
  counts.token_targets = rows * targets_of_row(config);
  counts.document_targets = labels ? rows : 0;
  counts.pairs = counts.tokens * model.seq_length;
  return counts;
}

void dry_run_step(const RunConfig& config, MetaGroups& meta, WorkLog* work) {
  DryRun(config, meta).train_step(full_micro_batch(config), full_batch_counts(config), work);
}

}  // namespace tessera
