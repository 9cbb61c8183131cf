#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/trace/work_log.h"
#include "launch/config/run_config.h"
#include "launch/config/validate.h"
#include "launch/metrics/evaluation.h"
#include "launch/support/text/json.h"
#include "launch/tools/plan/parameter_groups.h"
#include "launch/train/memory/memory_plan.h"
#include "parallel/meta_communicator.h"

namespace tessera {

/// More ranks than any machine has.
inline constexpr int64_t kMaxRanks = 1'000'000;

/// The needs of a run's first rank, which are the largest.
struct RunPlan {
  RunConfig config;
  ProcessGrid grid;
  std::vector<ParameterGroup> parameters;
  MemoryPlan memory;
  TargetCounts counts;                       ///< of a step on a full batch
  double flops = 0.0;                        ///< per step, over all ranks; see model_flops()
  double recompute_flops = 0.0;              ///< additional FLOPs of train.recompute, likewise
  GroupTraffic traffic;                      ///< of the first rank in a step
  std::shared_ptr<const WorkLog> work = {};  ///< likewise

  /// FLOPs of products in the first rank's optimizer: those of Muon.
  double muon_flops() const;
};

/// The reasons why `config` cannot run on `ranks` ranks: the rules that its layout breaks, and any
/// other error of validate() as a BrokenRule without key; empty if it can.
std::vector<BrokenRule> broken_rules(const RunConfig& config, int64_t ranks);

/// Plans a run by dry runs (plan_memory, dry_run_step). Reads no file. Throws Error if the run is
/// invalid.
RunPlan plan_run(const RunConfig& config, int64_t ranks);

/// The plan as text and as JSON.
std::string to_string(const RunPlan& plan);
Json to_json(const RunPlan& plan);
Json to_json(const std::vector<BrokenRule>& broken);

/// FLOPs of products that a step recomputes, over all ranks: with Recompute::block another forward
/// pass of the blocks.
double recompute_flops(const RunConfig& config, const TargetCounts& counts);

}  // namespace tessera
