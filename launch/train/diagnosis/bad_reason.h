#pragma once

#include <optional>
#include <string>

#include "core/ops/clip.h"
#include "launch/config/sections.h"

namespace tessera {

/// Why clip_scale() skipped a step.
struct BadReason {
  std::string subject;    ///< "loss" or "gradient norm"
  std::string predicate;  ///< "NaN", "infinite", or what makes it a spike
  bool is_spike = false;

  /// As in BadStep.
  std::string name() const { return is_spike ? "spike" : subject; }
};

/// Why the record's last step was skipped; nullopt if it was not.
std::optional<BadReason> reason_of_last_step(const StepRecord& record, const TrainSection& train);

/// Why the last skipped step was skipped, whatever step was the last. Its losses are not known any
/// more.
BadReason reason_of_skipped_step(const StepRecord& record, const TrainSection& train);

}  // namespace tessera
