#pragma once

#include <cstdint>

#include "launch/config/sections.h"

namespace tessera {

/// The learning rate of step `step` (counted from 0) of `steps`. It rises linearly from 0 to lr
/// over warmup_steps, where the first step already uses lr / warmup_steps, then follows the
/// schedule. All but constant and inverse_sqrt reach min_lr at the last step.
double learning_rate(const OptimizerSection& optimizer, int64_t step, int64_t steps);

}  // namespace tessera
