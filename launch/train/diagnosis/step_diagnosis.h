#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/support/text/json.h"
#include "launch/train/diagnosis/loaded_step.h"

namespace tessera {

/// Tells where a step that was not finite went wrong. The same on all ranks.
struct StepDiagnosis {
  /// The first tensor on a data rank that is not finite.
  struct Found {
    int data_rank = 0;
    int rank = 0;             ///< of the world, the first of the data rank's
    int64_t micro_batch = 0;  ///< from 0
    std::string tensor;       ///< as in NotFiniteTensor
    std::string place;
    std::vector<int64_t> samples;        ///< of the micro-batch
    std::vector<std::string> documents;  ///< of these, those that are not finite by themselves
  };

  std::vector<Found> found;                  ///< by data rank
  std::optional<std::string> weight = {};    ///< was not finite before the step
  std::optional<std::string> gradient = {};  ///< only the sum over the data ranks is not finite
  std::optional<std::string> problem = {};   ///< why the step could not be computed again

  /// Sentences for the user, without a full stop.
  std::string text() const;
  Json json() const;
};

/// Computes a step again, whose first sample is at `first_place` of the run's order, and finds the
/// first tensor that is not finite. The weights must be those that the step used; they are not
/// changed. Overwrites the gradients. Takes several times as long as a step. Collective.
StepDiagnosis diagnose_step(const StepParts& parts, int64_t step, int64_t first_place);

}  // namespace tessera
