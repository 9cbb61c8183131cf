#pragma once

#include "launch/config/run_config.h"

namespace tessera {

/// Checks what keys have to do with each other and with the number of ranks (`world_size` >= 1),
/// and that every value is one its key takes. Throws Error with the values at hand and those that
/// would work. Pure: it looks at no file and no device.
void validate(const RunConfig& config, int world_size);

}  // namespace tessera
