#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/metrics/evaluation.h"
#include "launch/train/diagnosis/loaded_step.h"

namespace tessera {

/// The losses of a document of a step.
struct DocumentLoss {
  int data_rank = 0;
  std::string name;           ///< DocumentName::text()
  int64_t sample = 0;         ///< in the training data
  int64_t token_targets = 0;  ///< whose mean loss is losses.token
  int64_t document_targets = 0;
  Losses losses;
};

/// Computes the losses of all documents of a step, each by itself, before the step has changed the
/// weights: the first sample is at `first_place` of the run's order. Dropout draws the step's
/// numbers. The sums are those of the step except for rounding. Without a head whose loss is of one
/// document (contrastive), there are none. In the order of the global batch, on all ranks. Throws
/// on all ranks or none. Collective.
std::vector<DocumentLoss> document_losses(const StepParts& parts, int64_t step,
                                          int64_t first_place);

}  // namespace tessera
