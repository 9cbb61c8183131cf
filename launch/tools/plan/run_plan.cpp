#include "launch/tools/plan/run_plan.h"

#include <algorithm>

#include "core/checked.h"
#include "launch/metrics/model_flops.h"
#include "launch/tools/plan/dry_step.h"
#include "launch/train/optimizer/weight_update.h"
#include "models/model.h"

namespace tessera {
namespace {

int checked_ranks(int64_t ranks) {
  require(1 <= ranks && ranks <= kMaxRanks, "a plan is for 1 to {} ranks, not {}", kMaxRanks,
          ranks);
  return narrow<int>(ranks);
}

std::vector<ParameterGroup> parameters_of(const RunConfig& config, const ParallelGroups& groups) {
  ParameterStore store;
  Model model(config.model, store, *groups.tp);
  store.allocate(kMeta, config.run.precision, StoreFor::inference);
  return count_by_group(store);
}

/// Plans `auto` as a CPU, with all memory in one place.
Device device_of(const RunConfig& config) {
  return config.run.device == DeviceChoice::cuda ? Device{DeviceType::cuda, 0} : kCpu;
}

/// Sets the traffic and the work of a step.
void measure_step(RunPlan& plan) {
  MetaGroups meta(plan.grid.world_size(), plan.config.grid_shape());
  const auto work = std::make_shared<WorkLog>();
  dry_run_step(plan.config, meta, work.get());
  plan.traffic = meta.traffic();
  plan.work = work;
}

}  // namespace

std::vector<BrokenRule> broken_rules(const RunConfig& config, int64_t ranks) {
  const int world_size = checked_ranks(ranks);
  std::vector<BrokenRule> broken = broken_layout_rules(config, world_size);
  try {
    validate(config, world_size);
  } catch (const Error& error) {
    const auto is_known = [&](const BrokenRule& rule) { return rule.message == error.what(); };
    if (std::none_of(broken.begin(), broken.end(), is_known)) {
      broken.push_back({"", 0, error.what()});
    }
  }
  return broken;
}

double recompute_flops(const RunConfig& config, const TargetCounts& counts) {
  if (config.train.recompute != Recompute::block) return 0.0;
  return block_flops(config.model, counts) / 3.0;  // a forward pass is a third of a step
}

double RunPlan::muon_flops() const {
  double sum = 0.0;
  for (const WorkLog::Event& event : work->events()) {
    if (event.range == kOptimizerRange) sum += event.work.matmul_flops;
  }
  return sum;
}

RunPlan plan_run(const RunConfig& config, int64_t ranks) {
  const int world_size = checked_ranks(ranks);
  validate(config, world_size);
  const MetaGroups meta(world_size, config.grid_shape());
  const TargetCounts counts = full_batch_counts(config);
  RunPlan plan{config,
               meta.groups().grid,
               parameters_of(config, meta.groups()),
               plan_memory(config, meta.groups(), device_of(config)),
               counts,
               model_flops(config.model, counts),
               recompute_flops(config, counts),
               GroupTraffic()};
  measure_step(plan);
  return plan;
}

}  // namespace tessera
