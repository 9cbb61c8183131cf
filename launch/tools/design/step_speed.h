#pragma once

#include <functional>

#include "launch/config/run_config.h"
#include "launch/train/run_setup.h"

namespace tessera {

/// The speed of a run on this machine.
struct StepSpeed {
  double step_seconds = 0.0;        ///< the median
  double tokens = 0.0;              ///< of a step, all ranks, without padding
  double evaluation_seconds = 0.0;  ///< if measured
  double start_seconds = 0.0;       ///< until the first step

  double tokens_per_second() const { return tokens / step_seconds; }
};

/// Trains the run of `load` from its initial weights for about so many `seconds`, at least three
/// steps after one that is not counted, and evaluates it once if `evaluates`. Writes nothing.
/// The result is that of rank 0, on all ranks. Throws on all ranks or none. Collective.
StepSpeed measure_step_speed(const std::function<RunConfig()>& load, OpenedRanks& ranks,
                             double seconds, bool evaluates);

}  // namespace tessera
