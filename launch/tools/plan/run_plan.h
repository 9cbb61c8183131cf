#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/config/validate.h"
#include "launch/metrics/evaluation.h"
#include "launch/support/text/json.h"
#include "launch/tools/plan/parameter_groups.h"
#include "launch/train/memory/memory_plan.h"
#include "parallel/communicators/traffic.h"
#include "parallel/process_grid.h"

namespace tessera {

/// More ranks than any machine has.
inline constexpr int64_t kMaxRanks = 1'000'000;

/// What a rank exchanges in a step, by group.
struct StepTraffic {
  TrafficTally tensor, data, world;
};

/// What a run on some ranks would need, of the first rank, which has as much as any.
struct RunPlan {
  RunConfig config;
  ProcessGrid grid;
  std::vector<ParameterGroup> parameters;
  MemoryPlan memory;
  TargetCounts counts;           ///< of a step on a full batch
  double flops = 0.0;            ///< of a step, of all ranks, as of model_flops()
  double recompute_flops = 0.0;  ///< more that train.recompute costs, likewise
  StepTraffic traffic;
};

/// What keeps `config` from being a run on `ranks` ranks: the rules that its layout breaks and what
/// else validate() says (as a BrokenRule without key); empty if nothing does.
std::vector<BrokenRule> broken_rules(const RunConfig& config, int64_t ranks);

/// Plans a run without running it, by dry runs (plan_memory, dry_run_step). Looks at no file.
/// Throws Error if the run could not be.
RunPlan plan_run(const RunConfig& config, int64_t ranks);

/// The plan for people, and for programs.
std::string to_string(const RunPlan& plan);
Json to_json(const RunPlan& plan);
Json to_json(const std::vector<BrokenRule>& broken);

/// FLOPs that a step recomputes of products, of all ranks: with Recompute::block another forward
/// pass of the blocks.
double recompute_flops(const RunConfig& config, const TargetCounts& counts);

}  // namespace tessera
