#pragma once

#include <string>
#include <vector>

#include "launch/config/run_config.h"
#include "launch/support/same_on_ranks.h"

namespace tessera {

/// Every key with its value, in the order of schema.h: {"train.steps", "120"}.
std::vector<NamedValue> config_values(const RunConfig& config);

/// The differences between two configurations, one line per key in the order of schema.h:
/// "train.steps: 120 -> 2000".
std::vector<std::string> config_changes(const RunConfig& before, const RunConfig& now);

}  // namespace tessera
