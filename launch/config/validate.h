#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/config/run_config.h"

namespace tessera {

/// Checks keys against each other and against the number of ranks (`world_size` >= 1), and that
/// every value is in its key's range. Of the automatic keys, only batch.micro, data.tokenizer and
/// run.walltime may be left. Throws Error with the current values and those that would work. Pure:
/// reads no file and no device.
void validate(const RunConfig& config, int world_size);

/// A rule that a layout breaks.
struct BrokenRule {
  std::string key;      ///< the key to change
  int64_t value = 0;    ///< its current value
  std::string message;  ///< key, value, the rule, and what would work
};

/// All divisibility rules that the run's layout on `world_size` >= 1 ranks breaks; validate()
/// reports the first. Keys must be in their ranges.
std::vector<BrokenRule> broken_layout_rules(const RunConfig& config, int world_size);

}  // namespace tessera
