#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/metrics/evaluation.h"
#include "launch/metrics/step_result.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Whole tensors by name, assembled from the shards of all ranks.
using WholeTensors = std::map<std::string, std::vector<float>>;

/// A training run whose ranks were threads of this process.
struct GatheredRun {
  std::vector<StepResult> steps;
  WholeTensors initial_weights;
  WholeTensors first_gradients;  ///< of the first step
  WholeTensors weights;          ///< final master weights
  WholeTensors exp_avg;
  WholeTensors ema;       ///< of the trained weights; empty without an average
  Evaluation evaluation;  ///< at the end; empty without eval data
  int64_t graph_launches = 0;
};

/// Runs `body` on a number of ranks, as run_thread_ranks() does.
using RunRanks =
    std::function<void(int ranks, const std::function<void(Communicator& world)>& body)>;

struct GatherOptions {
  int ranks = 1;
  int64_t steps = 1;
  bool resume = false;      ///< from the newest checkpoint of run.dir, instead of initial weights
  bool save = false;        ///< a checkpoint after the last step
  RunRanks run_ranks = {};  ///< the default is run_thread_ranks()
  /// The device of the calling rank; the default is the CPU.
  std::function<Device()> device = {};
};

/// Trains `config`, whose parallel.tensor must divide the ranks, and gathers the results. Throws,
/// naming parameter and element, unless replicas are bitwise equal, and if an element is on no
/// rank.
GatheredRun train_and_gather(const RunConfig& config, const GatherOptions& options);

/// How two runs, or two sets of tensors, differ: "gradient of blocks.0.mlp.up.weight: ...". nullopt
/// if each element is within `tolerance` × the larger of its own magnitude and the root mean square
/// of its tensor.
std::optional<std::string> difference(const WholeTensors& actual, const WholeTensors& expected,
                                      double tolerance);

/// As above, but nullopt if the root mean square of the difference of each tensor is within
/// `tolerance` × that of the tensor, or of all tensors / 100 if that is larger: for runs in bf16,
/// where single elements may be far off.
std::optional<std::string> mean_difference(const WholeTensors& actual, const WholeTensors& expected,
                                           double tolerance);

/// As above, but nullopt if all bits are equal.
std::optional<std::string> bit_difference(const WholeTensors& actual, const WholeTensors& expected);

}  // namespace tessera
