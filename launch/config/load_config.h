#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "launch/config/run_config.h"

namespace tessera {

/// Reads a run's YAML file, then each of `overrides` ("section.key=value", the value in YAML; of
/// two for one key the later wins). Nothing is lenient: see docs/configuration.md.
///
/// Throws Error if the file can not be read or is not such YAML; otherwise with everything that is
/// wrong with its keys and the overrides at once, a line each, as in
/// "x.yaml:12:3: unknown key 'model.num_layer'; did you mean 'model.num_layers'? ...".
/// What keys have to do with each other and with the number of ranks is for validate().
RunConfig load_config(const std::filesystem::path& path,
                      std::span<const std::string> overrides = {});

/// As load_config, from YAML text that messages call `name`.
RunConfig parse_config(std::string_view name, std::string_view yaml,
                       std::span<const std::string> overrides = {});

}  // namespace tessera
