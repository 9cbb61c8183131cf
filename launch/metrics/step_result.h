#pragma once

#include <cstdint>
#include <string>

#include "launch/metrics/evaluation.h"

namespace tessera {

/// What the last step came to, and the work of all steps since the result before.
struct StepResult {
  int64_t step = 0;  ///< steps done, this one included
  Losses losses;     ///< before the update
  double loss() const { return losses.total(); }
  double grad_norm = 0.0;  ///< before clipping
  double lr = 0.0;

  int64_t steps = 0;               ///< since the result before
  int64_t tokens = 0;              ///< of these steps, all ranks, without padding
  int64_t padded_tokens = 0;       ///< with padding
  double flops = 0.0;              ///< as of model_flops()
  double seconds = 0.0;            ///< from the start of the first of them until the last is done
  double data_wait_seconds = 0.0;  ///< of them, in which the slowest rank waited for its data
  std::string note;  ///< what a person should know of these steps, in a sentence, or ""
  double seconds_per_step() const { return seconds / static_cast<double>(steps); }
};

}  // namespace tessera
