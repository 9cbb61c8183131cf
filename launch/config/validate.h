#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/config/run_config.h"

namespace tessera {

/// Checks what keys have to do with each other and with the number of ranks (`world_size` >= 1),
/// and that every value is one its key takes. Throws Error with the values at hand and those that
/// would work. Pure: it looks at no file and no device.
void validate(const RunConfig& config, int world_size);

/// A rule that a layout breaks.
struct BrokenRule {
  std::string key;      ///< whose value could be another
  int64_t value = 0;    ///< that it has
  std::string message;  ///< with both, what it has to fit, and what would work
};

/// All rules of what divides what that the run's layout on `world_size` >= 1 ranks breaks, of which
/// validate() names the first. Keys are in their ranges.
std::vector<BrokenRule> broken_layout_rules(const RunConfig& config, int world_size);

}  // namespace tessera
