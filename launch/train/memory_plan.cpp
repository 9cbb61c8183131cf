#include "launch/train/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launch/data/batch_buffers.h"
#include "models/model.h"

namespace tessera {
namespace {

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

/// The arena's peak over training micro-batches and evaluation ones, as large as they can be.
size_t dry_run_peak(Model& model, const ModelConfig& config, int64_t micro_batch) {
  const TokenBatch full =
      with_one_document_a_row(full_batch_on_meta(micro_batch, config.seq_length));
  const LossSums sums{Tensor(nullptr, {LossSums::kCount}, DType::f64, kMeta)};
  Arena arena(kMeta);
  StepContext ctx{arena};
  for (const TokenBatch& batch : {full, with_fewer_targets(full)}) {
    arena.reset();
    ctx.training = true;
    model.train(ctx, batch, {1.0f, 1.0f}, sums);
    arena.reset();
    ctx.training = false;
    const Tensor predictions = arena.allocate({full.num_documents()}, DType::i32);
    model.evaluate(ctx, batch, sums, predictions);
  }
  return arena.peak();
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
  for (const Line& line : lines) sum += line.bytes;
  return sum;
}

MemoryPlan plan_memory(const ModelConfig& config, DType precision, int64_t micro_batch,
                       int64_t local_batch, Communicator& tp) {
  ParameterStore store;
  const std::unique_ptr<Model> model = make_model(config, store, tp);
  store.allocate(kMeta, precision, StoreFor::training);

  MemoryPlan plan;
  plan.arena_bytes = dry_run_peak(*model, config, micro_batch);
  plan.local_parameters = count_local(store);
  plan.global_parameters = count_global(store);
  plan.lines = {
      {"weights", store.value_bytes()},
      {"gradients", store.grad_bytes()},
      {"master weights", store.master_bytes()},
      {"AdamW moments", store.moment_bytes()},
      {"activations", plan.arena_bytes},
      {"batch", static_cast<size_t>(local_batch * config.seq_length) * 8 * sizeof(int32_t)}};
  return plan;
}

std::string human_bytes(size_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < kUnits.size(); ++unit) value /= 1024.0;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

}  // namespace tessera
