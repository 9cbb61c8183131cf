#include "launch/train/memory/memory_plan.h"

#include <utility>

#include "core/checked.h"
#include "core/memory.h"
#include "launch/checkpoint/save/save_plan.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/train/run_layout.h"
#include "models/model.h"
#include "parallel/held_row_gradients.h"

namespace tessera {
namespace {

/// Eight int32 a token (models/token_batch.h).
size_t batch_bytes(int64_t sequences, int64_t seq_length) {
  return static_cast<size_t>(sequences * seq_length) * 8 * sizeof(int32_t);
}

/// `batch` with a target fewer, whose targets' rows have to be gathered.
TokenBatch with_fewer_targets(TokenBatch batch) {
  const int64_t fewer = batch.num_targets() - 1;
  batch.targets = batch.targets.slice(0, fewer);
  batch.target_rows = batch.target_rows.slice(0, fewer);
  return batch;
}

/// A row that has a label is one document.
TokenBatch with_one_document_a_row(TokenBatch batch) {
  batch.documents = batch.documents.slice(0, batch.sequences + 1);
  batch.labels = batch.labels.slice(0, batch.sequences);
  return batch;
}

/// Micro-batches that need as much as any: every token has a target, or all but one.
std::vector<TokenBatch> largest_batches(const ModelConfig& config, int64_t micro_batch) {
  const TokenBatch full =
      with_one_document_a_row(full_batch_on_meta(micro_batch, config.seq_length));
  return {full, with_fewer_targets(full)};
}

LossSums sums_on_meta() { return {Tensor(nullptr, {LossSums::kCount}, DType::f64, kMeta)}; }

/// Runs evaluation micro-batches in `arena`, which is on the meta device.
void dry_run_evaluation(Model& model, const std::vector<TokenBatch>& batches, const RowSplit& rows,
                        Arena& arena) {
  for (const TokenBatch& batch : batches) {
    arena.reset();
    StepContext ctx{arena};
    ctx.training = false;
    ctx.recompute = Recompute::block;  // as evaluate() does
    ctx.rows = rows;
    const Tensor predictions = arena.allocate({batch.num_documents()}, DType::i32);
    model.evaluate(ctx, batch, sums_on_meta(), predictions);
  }
}

void dry_run_training(Model& model, const std::vector<TokenBatch>& batches, Recompute recompute,
                      const RowSplit& rows, Arena& arena) {
  for (const TokenBatch& batch : batches) {
    arena.reset();
    StepContext ctx{arena};
    ctx.training = true;
    ctx.recompute = recompute;
    ctx.rows = rows;
    model.train(ctx, batch, {1.0f, 1.0f}, sums_on_meta());
  }
}

int64_t count_global(const ParameterStore& store) {
  int64_t count = 0;
  for (const Parameter& parameter : store.parameters()) count += parameter.global_shape.numel();
  return count;
}

int64_t count_local(const ParameterStore& store) {
  int64_t count = 0;
  for (const Parameter& parameter : store.parameters()) count += parameter.real_shape().numel();
  return count;
}

}  // namespace

size_t MemoryPlan::total() const {
  size_t sum = 0;
  for (const Line& line : lines) sum += counts(line) ? line.bytes : 0;
  return sum;
}

size_t MemoryPlan::total_in_host() const {
  size_t sum = 0;
  for (const Line& line : lines) sum += counts(line) ? 0 : line.bytes;
  return sum;
}

MemoryPlan plan_memory(const RunConfig& config, const ParallelGroups& groups, Device device) {
  ParameterStore store;
  Model model(config.model, store, *groups.tp);
  store.allocate(kMeta, config.run.precision, StoreFor::training, flat_cut(config, groups));
  const int64_t local_batch =
      div_exact(config.batch.global, groups.dp->size(), "batch.global", "the data ranks");

  MemoryPlan plan;
  plan.device = device;
  const std::vector<TokenBatch> batches = largest_batches(config.model, config.batch.micro);
  Arena arena(kMeta);
  RowSplit rows = row_split(config, groups);
  rows.index = 0;  // holds the most rows for every N; the last ranks may hold most where N is less
  dry_run_training(model, batches, config.train.recompute, rows, arena);
  dry_run_evaluation(model, batches, rows, arena);
  if (rows.split()) {
    arena.reset();
    HeldRowGradients(store, *groups.tp).sum(arena);
  }
  plan.arena_bytes = arena.peak();
  plan.local_parameters = count_local(store);
  plan.global_parameters = count_global(store);
  plan.lines = {
      {"weights", store.value_bytes()},
      {"gradients", store.grad_bytes()},
      {"master weights", store.master_bytes()},
      {"AdamW moments", store.moment_bytes()},
      {"activations", plan.arena_bytes},
      // That which a GPU works on.
      {"micro-batch",
       device.is_cuda() ? batch_bytes(config.batch.micro, config.model.seq_length) : 0},
      {kCheckpointCopyLine,
       copies_checkpoints(config) ? checkpoint_copy_bytes(store, groups.dp->size()) : 0,
       /*in_host=*/true},
      // Of this step and the next, and two micro-batches of an evaluation.
      {"batch", 2 * batch_bytes(local_batch + config.batch.micro, config.model.seq_length),
       /*in_host=*/true}};
  return plan;
}

bool copies_checkpoints(const RunConfig& config) {
  const int64_t interval = config.checkpoint.interval;
  return config.checkpoint.background && 0 < interval && interval < config.train.steps;
}

size_t checkpoint_copy_bytes(const ParameterStore& store, int data_ranks) {
  int64_t own = 0;
  std::vector<int64_t> shared;
  for (const Parameter& parameter : store.parameters()) {
    const auto aligned = [](int64_t elements) {  // as SliceCopies does
      return round_up(elements * int64_t{sizeof(float)}, int64_t{kAlignment});
    };
    const int64_t all = aligned(parameter.real_shape().numel());
    if (parameter.exp_avg.defined()) {
      shared.insert(shared.end(), 3, all);  // the master and two moments
      continue;
    }
    // A run of elements is cut into a few boxes, each aligned by itself.
    constexpr int64_t kMostBoxes = 2 * Shape::kMaxDims;
    const int64_t part =
        aligned(parameter.owned.elements.size()) + kMostBoxes * int64_t{kAlignment};
    own += 2 * part;
    if (parameter.master.defined()) {
      shared.push_back(all);
    } else {
      own += part;
    }
  }
  return static_cast<size_t>(own + largest_share(std::move(shared), data_ranks));
}

size_t plan_evaluation_arena(const ModelConfig& config, DType precision, int64_t micro_batch,
                             Communicator& tp) {
  ParameterStore store;
  Model model(config, store, tp);
  store.allocate(kMeta, precision, StoreFor::inference);
  Arena arena(kMeta);
  dry_run_evaluation(model, largest_batches(config, micro_batch), {}, arena);
  return arena.peak();
}

}  // namespace tessera
