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
      return seq_length - std::max<int64_t>(0, config.model.attention_prefix - 1);
    case Objective::seq2seq:
    case Objective::token_classification:  // as if each token were a word
      return seq_length;
    case Objective::masked_lm:
      return std::clamp<int64_t>(
          std::llround(config.mlm.probability * static_cast<double>(seq_length)), 1, seq_length);
    case Objective::classification:
    case Objective::embedding:
      break;
  }
  return 0;
}

/// A rank's micro-batch in which each row is one document, or one of each text of a sample. Context
/// ranks have equal shares of it.
TokenBatch full_micro_batch(const RunConfig& config, const ContextShape& context) {
  const int64_t rows = config.batch.micro;
  const ModelTraits traits = traits_of(config.model);
  const int64_t documents = rows * std::max<int64_t>(1, traits.texts_of_sample);
  TokenBatch batch = full_batch_on_meta(batch_shape(rows, config.model, config.mlm));
  keep_documents(batch, documents);
  batch.document_length = config.model.seq_length;
  batch.target_rows = batch.target_rows.slice(0, rows * targets_of_row(config));
  batch.targets = batch.targets.slice(0, rows * targets_of_row(config));
  const TokenBatch part = cut_on_meta(batch, context);
  return with_targets(
      part, std::min(part.num_targets(), ceil_div(batch.num_targets(), int64_t{context.ranks})));
}

}  // namespace

TargetCounts full_batch_counts(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const int64_t rows = config.batch.global;
  const ModelTraits traits = traits_of(model);
  const int64_t queries = traits.texts_of_sample == 0 ? 0 : model.symmetric_loss ? 2 : 1;
  TargetCounts counts;
  counts.tokens = rows * traits.row_length;
  counts.token_targets = rows * targets_of_row(config);
  counts.documents = rows * std::max<int64_t>(1, traits.texts_of_sample);
  counts.document_targets = rows * (traits.document_labels ? 1 : queries);
  counts.pairs = counts.tokens * model.seq_length;  // within a document
  counts.source_tokens = rows * traits.source_length;
  counts.source_pairs = counts.source_tokens * traits.source_length;
  counts.cross_pairs = counts.tokens * traits.source_length;
  return counts;
}

void dry_run_step(const RunConfig& config, MetaGroups& meta, WorkLog* work) {
  DryRun(config.step_options(), meta)
      .train_step(full_micro_batch(config, context_ranks_of(meta.groups())),
                  full_batch_counts(config), work);
}

}  // namespace tessera
