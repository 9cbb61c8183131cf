#pragma once

#include "launch/config/run_config.h"
#include "launch/train/trainer.h"

namespace tessera {

/// Opens the datasets that the config names, as samples of the kind that its model learns from.
/// Throws if they are missing, damaged or too short, or if the tokenizer lacks what the model
/// needs.
TrainingData open_data(const RunConfig& config);

}  // namespace tessera
