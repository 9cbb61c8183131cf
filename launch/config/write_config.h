#pragma once

#include <string>

#include "launch/config/run_config.h"

namespace tessera {

/// The whole configuration, every key in the order of schema.h, as YAML that parse_config() reads
/// back as an equal one: doubles have as many digits as that needs.
std::string to_yaml(const RunConfig& config);

/// The keys of section model alone, indented.
std::string to_yaml(const ModelConfig& model);

/// The text of docs/configuration.md: the rules, and a table of each section's keys.
std::string config_markdown();

}  // namespace tessera
