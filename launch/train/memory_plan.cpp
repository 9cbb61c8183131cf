#include "launch/train/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/gpt.h"

namespace tessera {
namespace {

/// The arena's peak over a training micro-batch and an evaluation one.
size_t dry_run_peak(Gpt& model, const ModelConfig& config, int64_t micro_batch) {
  const Tensor tokens(nullptr, {micro_batch, config.seq_length}, DType::i32, kMeta);
  const Tensor loss_sum(nullptr, {1}, DType::f64, kMeta);
  Arena arena(kMeta);
  StepContext ctx{arena};
  ctx.training = true;
  model.train(ctx, tokens, tokens, 1.0f, loss_sum);
  arena.reset();
  ctx.training = false;
  model.evaluate(ctx, tokens, tokens, loss_sum);
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
  Gpt model(config, store, tp);
  store.allocate(kMeta, precision, StoreFor::training);

  MemoryPlan plan;
  plan.arena_bytes = dry_run_peak(model, config, micro_batch);
  plan.local_parameters = count_local(store);
  plan.global_parameters = count_global(store);
  plan.lines = {{"weights", store.value_bytes()},
                {"gradients", store.grad_bytes()},
                {"master weights", store.master_bytes()},
                {"AdamW moments", store.moment_bytes()},
                {"activations", plan.arena_bytes},
                {"batch", static_cast<size_t>(local_batch * config.seq_length) * 2 * 4}};
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
