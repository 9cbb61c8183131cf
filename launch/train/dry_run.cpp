#include "launch/train/dry_run.h"

#include <algorithm>

#include "core/trace/flight_recorder.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/train/evaluation_pass.h"
#include "launch/train/optimizer/optimizer_groups.h"
#include "launch/train/run_layout.h"
#include "launch/train/sample_writer.h"
#include "models/architecture.h"
#include "models/output_rows.h"

namespace tessera {
namespace {

/// Returns the same micro-batch every time.
class OneBatch final : public MicroBatchSource {
 public:
  OneBatch(const TokenBatch& batch, const TargetCounts& counts, int64_t size)
      : batch_(batch), counts_(counts), size_(size) {}

  // Already the counts of all ranks: no peer adds to them.
  TargetCounts load() override { return counts_; }
  void load_next() override {}
  int64_t size() const override { return size_; }
  int64_t first_sequence(int64_t i) const override { return i * batch_.sequences; }
  TokenBatch batch(int64_t /*i*/) override { return batch_; }

 private:
  TokenBatch batch_;
  TargetCounts counts_;
  int64_t size_;
};

/// Runs only the first, the second and the last micro-batch of a step. Those in between match the
/// second, so only their traffic and work are counted.
class DryMicroSteps final : public MicroStepRunner {
 public:
  DryMicroSteps(Model& model, MetaGroups& meta, int64_t micro_batches)
      : model_(model), meta_(meta), micro_batches_(micro_batches) {}

  void run(const StepContext& ctx, const TokenBatch& batch, const LossWeights& weights,
           const LossSums& sums) override {
    run_or_repeat(done_, [&] { model_.train(ctx, batch, weights, sums); });
  }

  Tensor embed(const StepContext& ctx, const TokenBatch& batch, float length) override {
    run_or_repeat(embedded_, [&] { embeddings_ = model_.embed(ctx, batch, length); });
    return embeddings_;
  }

  void embed_backward(const StepContext& ctx, const TokenBatch& batch,
                      const Tensor& gradient) override {
    run_or_repeat(done_, [&] { model_.embed_backward(ctx, batch, gradient); });
  }

 private:
  /// `done` counts the calls of one function over the passes of a step.
  template <typename Pass>
  void run_or_repeat(int64_t& done, Pass&& pass) {
    const int64_t micro = done++ % micro_batches_;
    if (1 < micro && micro + 1 < micro_batches_) return;
    const bool repeats = micro == 1 && micro_batches_ > 2;
    const std::vector<TrafficTally*> tallies = meta_.tallies();
    std::vector<TrafficTally> before;
    for (const TrafficTally* tally : tallies) before.push_back(*tally);
    WorkLog* const work = WorkLog::current();
    const size_t first_event = work != nullptr ? work->events().size() : 0;
    pass();
    if (!repeats) return;
    for (size_t i = 0; i < before.size(); ++i) {
      tallies[i]->repeat_since(before[i], micro_batches_ - 2);
    }
    if (work != nullptr) work->repeat_since(first_event, micro_batches_ - 2);
  }

  Model& model_;
  MetaGroups& meta_;
  int64_t micro_batches_;
  int64_t done_ = 0;
  int64_t embedded_ = 0;
  Tensor embeddings_;
};

void dry_evaluate(Model& model, const TokenBatch& batch, const SequenceShard& rows, Arena& arena,
                  Communicator* cp = nullptr) {
  const FlightRecorder::Scope unrecorded(nullptr);
  arena.reset();
  const StepContext ctx = evaluation_context(arena, rows, cp);
  const Tensor predictions = allocate_predictions(arena, model.config(), batch);
  model.evaluate(ctx, batch, {Tensor(nullptr, {LossSums::kCount}, DType::f64, kMeta)}, predictions,
                 allocate_losses(arena, batch));
}

/// Scores multiple-choice questions.
void dry_score(Model& model, const TokenBatch& batch, const SequenceShard& rows, Arena& arena) {
  if (traits_of(model.config()).objective != Objective::causal_lm) return;
  const FlightRecorder::Scope unrecorded(nullptr);
  arena.reset();
  model.token_scores(evaluation_context(arena, rows), batch);
}

}  // namespace

TokenBatch with_targets(TokenBatch batch, int64_t count) {
  batch.targets = batch.targets.slice(0, count);
  batch.target_rows = batch.target_rows.slice(0, count);
  return batch;
}

DryRun::DryRun(const StepOptions& options, MetaGroups& meta)
    : options_(options),
      meta_(meta),
      model_(options.model, store_, *meta.groups().tp),
      state_(allocate_for_training(options, meta.groups(), kMeta, store_)),
      units_(store_, meta.groups(), options.parallel.grad_reduce_dtype),
      arena_(kMeta) {
  model_.listen(&units_);
}

void DryRun::train_step(const TokenBatch& batch, const TargetCounts& counts, WorkLog* work) {
  const ParallelGroups& groups = meta_.groups();
  const int64_t size = batch_share(options_.batch, groups.dp->size()).micro_batches;
  DryMicroSteps runner(model_, meta_, size);
  OneBatch batches(batch, counts, size);
  StepOptions options = options_;
  options.noise_scale_interval = 0;  // few steps measure it, and need no more memory for that
  TrainStep step(options, runner, state_, units_, groups, arena_);
  const FlightRecorder::Scope unrecorded(nullptr);
  const WorkLog::Scope scope(work);
  step.run(0, batches);
}

void DryRun::run_largest() {
  const ContextShape context = context_ranks_of(meta_.groups());
  const bool evaluates_cut = !evaluates_whole_batches(options_.model);
  for (const TokenBatch& batch :
       batches_for_memory(options_.model, options_.batch.micro, context)) {
    train_step(batch, {});
    if (evaluates_cut) evaluate(batch);
  }
  if (evaluates_cut) return;
  for (const TokenBatch& batch : batches_for_memory(options_.model, options_.batch.micro)) {
    evaluate(batch);
  }
}

void DryRun::evaluate(const TokenBatch& batch) {
  const ParallelGroups& groups = meta_.groups();
  dry_evaluate(model_, batch, sequence_shard(options_.parallel, groups), arena_, groups.cp.get());
}

void DryRun::score_continuations() {
  for (const TokenBatch& batch : batches_for_memory(options_.model, options_.batch.micro)) {
    dry_score(model_, batch, sequence_shard(options_.parallel, meta_.groups()), arena_);
  }
}

size_t DryRun::write_sample() {
  const FlightRecorder::Scope unrecorded(nullptr);
  return dry_samples(model_, arena_);
}

size_t plan_step_arena(const StepOptions& options, const ParallelGroups& groups) {
  // The first tensor rank has the most rows of activations.
  MetaGroups meta(groups.world.size(), groups.grid.shape(),
                  groups.world.rank() - groups.tp->rank());
  DryRun dry_run(options, meta);
  dry_run.run_largest();
  return dry_run.arena_peak();
}

size_t plan_evaluation_arena(const ModelConfig& config, DType precision, int64_t micro_batch,
                             Communicator& tp) {
  ParameterStore store;
  Model model(config, store, tp);
  store.allocate(kMeta, precision, StoreFor::inference);
  Arena arena(kMeta);
  for (const TokenBatch& batch : batches_for_memory(config, micro_batch)) {
    dry_evaluate(model, batch, {}, arena);
    dry_score(model, batch, {}, arena);
  }
  return arena.peak();
}

std::vector<TokenBatch> largest_batches(const ModelConfig& config, int64_t micro_batch,
                                        const ContextShape& context) {
  const ModelTraits traits = traits_of(config);
  TokenBatch full = full_batch_on_meta(batch_shape(micro_batch, traits));
  // One row with a label is one document, or one of each text.
  const int64_t documents = full.sequences * std::max<int64_t>(1, traits.texts_of_sample);
  keep_documents(full, documents);
  full = cut_on_meta(full, context);
  return {full, with_targets(full, full.num_targets() - 1)};
}

std::vector<TokenBatch> batches_for_memory(const ModelConfig& config, int64_t micro_batch,
                                           const ContextShape& context) {
  std::vector<TokenBatch> batches = largest_batches(config, micro_batch, context);
  const TokenBatch full = batches[0];
  const ReadByHeads read = read_by_heads(config);
  const int64_t others = read.first_tokens ? full.num_documents() : 0;
  const int64_t targets = full.num_tokens() / 2 - others;
  if (read.targets && targets >= 0) batches.push_back(with_targets(full, targets));
  return batches;
}

}  // namespace tessera
