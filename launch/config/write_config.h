#pragma once

#include <string>

#include "launch/config/run_config.h"

namespace tessera {

/// The whole configuration, every key in the order of schema.h, as YAML from which parse_config()
/// makes an equal one: doubles are written with as many digits as that takes.
std::string to_yaml(const RunConfig& config);

/// The keys of the section model alone, indented.
std::string to_yaml(const ModelConfig& model);

/// docs/configuration.md: the rules, and every section's keys in a table.
std::string config_markdown();

}  // namespace tessera
