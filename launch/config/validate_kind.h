#pragma once

#include "launch/config/run_config.h"

namespace tessera {

/// Throws, naming the key, if keys of a model contradict one another, or one is set that its kind
/// does not take.
void check_model_kind(const ModelConfig& model);

/// The same for all keys of a run that depend on the kind of its model: a key that has no effect
/// would look as if it had.
void check_kind(const RunConfig& config);

}  // namespace tessera
