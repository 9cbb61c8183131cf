#pragma once

#include "launch/config/run_config.h"

namespace tessera {

/// Throws, naming the key, if one is set that the kind of model does not take, or if keys of the
/// model contradict one another: a key that has no effect would look as if it had.
void check_kind(const RunConfig& config);

}  // namespace tessera
