#pragma once

#include <functional>
#include <map>
#include <string>

#include "launch/config/run_config.h"

namespace tessera {

/// Sources of the values of derived keys, by full name: {"model.vocab_size", "the tokenizer"}.
using KeyOrigins = std::map<std::string, std::string, std::less<>>;

/// The whole configuration, every key in the order of schema.h, as YAML that parse_config() reads
/// back as an equal one: doubles have as many digits as that needs. Keys with an origin end in it,
/// as a comment.
std::string to_yaml(const RunConfig& config, const KeyOrigins& origins = {});

/// The keys that have a reason, as YAML for people to read and change. Each reason is a comment
/// above its key; an empty one writes none, as where the reason of the key before is enough.
std::string to_commented_yaml(const RunConfig& config, const KeyOrigins& reasons);

/// The keys of section model alone, indented.
std::string to_yaml(const ModelConfig& model);

/// The text of docs/configuration.md: the rules, and a table of each section's keys.
std::string config_markdown();

}  // namespace tessera
