#pragma once

#include <cstdint>

#include "core/checked.h"
#include "core/ops/stochastic_rounding.h"
#include "core/parameters/parameter.h"

namespace tessera {

/// How the values of `elements` of a parameter's real part are rounded stochastically, but for the
/// step.
inline StochasticRounding value_rounding(const Parameter& parameter, Range elements,
                                         uint64_t seed) {
  const RandomKey key{seed_for(seed, parameter.name), RandomPurpose::stochastic_rounding, 0, 0};
  return {key, parameter.global_index(), elements.begin};
}

/// How the bf16 moments of `elements` are rounded stochastically, but for the step.
inline StochasticRounding moment_rounding(const Parameter& parameter, Range elements,
                                          uint64_t seed) {
  StochasticRounding rounding = value_rounding(parameter, elements, seed);
  rounding.key.purpose = RandomPurpose::moment_rounding;
  return rounding;
}

/// Returns the rounding for the numbers after `steps_done` steps.
inline StochasticRounding at_step(StochasticRounding rounding, int64_t steps_done) {
  rounding.key.step = narrow<uint32_t>(steps_done);
  return rounding;
}

}  // namespace tessera
