#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/metrics/evaluation.h"
#include "launch/support/text/json.h"

namespace tessera {

/// The rank that the others waited for.
struct SlowestRank {
  int rank = 0;
  int64_t steps = 0;   ///< in which it was the slowest
  double share = 0.0;  ///< of all ranks' time: what the others waited longer than it did
};

/// A step that changed no weight, because it was not finite or a spike.
struct BadStep {
  int64_t step = 0;
  std::string reason;            ///< "loss", "gradient norm" or "spike"
  double grad_norm = 0.0;        ///< before clipping
  double median = 0.0;           ///< that a spike was compared with; otherwise 0
  int64_t skipped_steps = 0;     ///< of the whole run, including this one
  std::vector<int64_t> samples;  ///< of the global batch: their numbers in the training data
  Json diagnosis;                ///< of a step that was not finite: StepDiagnosis, or null
  std::string what;              ///< "the loss of step 7 is NaN"
  std::string text;              ///< sentences about where it was not finite, or ""
  std::string hint;              ///< how to find out more, or ""
};

/// The result of the last step, and the work of all steps since the previous result.
struct StepResult {
  int64_t step = 0;         ///< steps done, including this one
  Losses losses;            ///< before the update
  bool has_targets = true;  ///< otherwise the loss is undefined
  double loss() const { return losses.total(); }
  double grad_norm = 0.0;  ///< before clipping
  double lr = 0.0;
  int64_t skipped_steps = 0;  ///< of the whole run, because they were not finite, or spikes
  std::optional<BadStep> bad_step = {};  ///< the last skipped step since the previous result

  /// Noise scale of the gradient, in samples, at the last measurement; nullopt: not known.
  std::optional<double> noise_scale = {};

  int64_t steps = 0;               ///< since the previous result
  int64_t tokens = 0;              ///< of these steps, all ranks, without padding
  int64_t padded_tokens = 0;       ///< with padding
  double flops = 0.0;              ///< see model_flops()
  double seconds = 0.0;            ///< from the start of the first step to the end of the last
  double data_wait_seconds = 0.0;  ///< part of `seconds` that the slowest rank waited for data
  std::string note;                ///< a sentence for the user about these steps, or ""
  double seconds_per_step() const { return seconds / static_cast<double>(steps); }
};

}  // namespace tessera
