#include "launch/tools/plan/dry_step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/checked.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/train/optimizer/weight_update.h"
#include "launch/train/run_layout.h"
#include "models/architecture.h"
#include "models/model.h"

namespace tessera {
namespace {

int64_t targets_of_row(const RunConfig& config) {
  const int64_t seq_length = config.model.seq_length;
  switch (traits_of(config.model).objective) {
    case Objective::causal_lm:
      return seq_length;
    case Objective::masked_lm:
      return std::clamp<int64_t>(
          std::llround(config.mlm.probability * static_cast<double>(seq_length)), 1, seq_length);
    case Objective::classification:
      break;
  }
  return 0;
}

/// A data rank's micro-batch of rows that are one document each.
TokenBatch full_micro_batch(const RunConfig& config) {
  const int64_t rows = config.batch.micro;
  TokenBatch batch = full_batch_on_meta(rows, config.model.seq_length);
  batch.documents = batch.documents.slice(0, rows + 1);
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

void dry_run_step(const RunConfig& config, MetaGroups& meta) {
  const ParallelGroups& groups = meta.groups();
  ParameterStore store;
  Model model(config.model, store, *groups.tp);
  store.allocate(kMeta, config.run.precision, StoreFor::training, flat_cut(config, groups));
  WeightUpdate update(config, store, groups);
  const LossSums sums{Tensor(nullptr, {LossSums::kCount}, DType::f64, kMeta)};

  Arena arena(kMeta);
  StepContext ctx{arena};
  ctx.training = true;
  ctx.recompute = config.train.recompute;
  ctx.rows = row_split(config, groups);
  const TokenBatch batch = full_micro_batch(config);
  const int64_t micro_batches =
      div_exact(div_exact(config.batch.global, groups.dp->size(), "batch.global", "data ranks"),
                config.batch.micro, "a data rank's batch", "batch.micro");
  if (micro_batches > 1) {  // all but the last are alike
    model.train(ctx, batch, {1.0f, 1.0f}, sums);
    for (TrafficTally* tally : meta.tallies()) tally->repeat(micro_batches - 1);
  }
  arena.reset();
  ctx.reducer = update.reducer();
  model.train(ctx, batch, {1.0f, 1.0f}, sums);

  // What a step does once.
  std::array<double, 2> loading = {};  // as Trainer::load_batch() does
  groups.world.all_reduce(Tensor(loading.data(), {2}, DType::f64, kCpu), ReduceOp::max);
  TargetCounts counts = full_batch_counts(config);
  counts.all_reduce(*groups.dp);
  arena.reset();
  update.sum(sums, arena);
  update.apply(0, config.optimizer.lr, sums);
}

}  // namespace tessera
