#include "launch/tools/plan/layout_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/error.h"
#include "launch/train/memory/gpu_memory_check.h"

namespace tessera {
namespace {

constexpr Recompute kRecomputes[] = {Recompute::none, Recompute::activation, Recompute::block};

std::vector<int64_t> divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

struct Stage {
  int64_t zero = 0;
  int64_t shard = 0;
};

/// Of `replicas` of the model, on data and context ranks.
std::vector<Stage> stages_of(const RunConfig& config, int64_t tensor, int64_t replicas) {
  std::vector<Stage> stages = {{}};
  if (replicas == 1) return stages;  // nothing to share
  std::vector<int64_t> shards = {config.parallel.shard};
  const int64_t of_host = kRanksOfHost % tensor == 0 ? kRanksOfHost / tensor : 1;
  const bool spans_hosts = 1 < of_host && of_host < replicas;
  if (config.parallel.shard == 0 && spans_hosts) shards.push_back(of_host);
  for (const int64_t zero : {1, 2, 3}) {
    for (const int64_t shard : shards) {
      const bool has_shards = shard == 0 || (replicas % shard == 0 && (zero == 1 || shard > 1));
      if (has_shards) stages.push_back({zero, shard});
    }
  }
  return stages;
}

/// The layouts with `tensor` tensor ranks, by increasing micro-batch.
std::vector<Layout> layouts_of(const RunConfig& config, int64_t tensor, int64_t data) {
  const int64_t most_rows = std::numeric_limits<int32_t>::max() / config.model.seq_length;
  std::vector<Layout> layouts;
  for (const Recompute recompute : kRecomputes) {
    for (const int64_t micro : divisors_of(config.batch.global / data)) {
      if (micro > most_rows) continue;
      for (const Stage& stage : stages_of(config, tensor, data * config.parallel.context)) {
        for (const bool sequence : {false, true}) {
          if (sequence && tensor == 1) continue;  // has no effect
          layouts.push_back({tensor, micro, recompute, stage.zero, sequence, stage.shard});
        }
      }
    }
  }
  return layouts;
}

/// The sort key of layouts: of two equally fast ones, the one that needs less memory comes first.
auto order_key(const SweptLayout& swept) {
  return std::tuple(swept.time.total(), swept.memory, swept.layout.tensor, swept.layout.micro,
                    swept.layout.recompute, swept.layout.zero, swept.layout.shard,
                    swept.layout.sequence);
}

class Sweep {
 public:
  Sweep(const RunConfig& config, const SweepOptions& options) : config_(config) {
    result_.options = options;
    result_.steps = config.train.steps;
    if (config.run.device == DeviceChoice::cpu) return;
    result_.left_free = kUnplannedOfEmptyGpu;
    config_.run.device = DeviceChoice::cuda;  // the memory that has to suffice
  }

  /// Plans all layouts with `tensor` tensor ranks.
  void evaluate(int64_t tensor) {
    const int64_t ranks = result_.options.ranks;
    const RunConfig smallest = Layout{tensor, 1, Recompute::none}.of(config_);
    const std::vector<BrokenRule> broken = broken_rules(smallest, ranks);
    if (!broken.empty()) {
      require(!broken.back().key.empty(), "{}", broken.back().message);
      if (result_.broken++ == 0) result_.first_broken = broken.front().message;
      return;
    }
    const int64_t data = smallest.grid_shape().data_ranks(ranks);
    for (const Layout& layout : layouts_of(config_, tensor, data)) evaluate(layout);
  }

  /// Plans the configuration's own layout with each stage of ZeRO.
  void evaluate_stages() {
    const int64_t tensor = config_.parallel.tensor;
    for (const Stage& stage : stages_of(config_, tensor, result_.options.ranks / tensor)) {
      evaluate({tensor, config_.batch.micro, config_.train.recompute, stage.zero,
                config_.parallel.sequence, stage.shard});
    }
  }

  LayoutSweep finish() {
    std::sort(
        result_.fitting.begin(), result_.fitting.end(),
        [](const SweptLayout& a, const SweptLayout& b) { return order_key(a) < order_key(b); });
    return std::move(result_);
  }

 private:
  void evaluate(const Layout& layout) {
    const RunPlan plan = plan_run(layout.of(config_), result_.options.ranks);
    const size_t memory = plan.memory.total();
    result_.step_tokens = plan.counts.tokens;
    if (memory + result_.left_free <= result_.options.memory) {
      const Roofline time = roofline(plan, result_.options.gpu(plan.config));
      result_.fitting.push_back({layout, plan.grid.data(), memory, time.parts(), time.mfu()});
      if (time.seconds() < fastest_) {
        fastest_ = time.seconds();
        result_.assumed = speeds_text(time);
        result_.assumed_json = speeds_json(time);
      }
      return;
    }
    ++result_.too_large;
    if (result_.smallest && result_.smallest_memory <= memory) return;
    result_.smallest = layout;
    result_.smallest_memory = memory;
  }

  RunConfig config_;
  LayoutSweep result_;
  double fastest_ = std::numeric_limits<double>::infinity();
};

}  // namespace

RunConfig Layout::of(RunConfig config) const {
  config.parallel.tensor = tensor;
  config.batch.micro = micro;
  config.train.recompute = recompute;
  config.parallel.zero = zero;
  config.parallel.shard = shard;
  config.parallel.sequence = sequence;
  return config;
}

std::string to_string(const Layout& layout) {
  return fmt::format("tensor {}, micro {}, recompute {}, zero {}{}, sequence {}", layout.tensor,
                     layout.micro, to_string(layout.recompute), layout.zero,
                     layout.shard == 0 ? "" : fmt::format(", shard {}", layout.shard),
                     layout.sequence);
}

LayoutSweep sweep_layouts(const RunConfig& config, const SweepOptions& options) {
  require(1 <= options.ranks && options.ranks <= kMaxRanks, "a plan is for 1 to {} ranks, not {}",
          kMaxRanks, options.ranks);
  Sweep sweep(config, options);
  if (options.tensor) {
    sweep.evaluate(*options.tensor);
  } else {
    for (const int64_t tensor : divisors_of(options.ranks)) sweep.evaluate(tensor);
  }
  return sweep.finish();
}

LayoutSweep sweep_stages(const RunConfig& config, const SweepOptions& options) {
  Sweep sweep(config, options);
  sweep.evaluate_stages();
  return sweep.finish();
}

}  // namespace tessera
