#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "launch/config/run_config.h"

namespace tessera {

/// Reads a run's YAML file, then each of `overrides` ("section.key=value", with the value in YAML;
/// the last one for a key wins). Nothing is lenient: see docs/configuration.md.
///
/// A file may include others: `include: base.yaml`, or a list, relative to its folder. They are
/// read before its own keys, which win. A file that includes itself is an error.
///
/// Throws Error if the file cannot be read or is not such YAML. Otherwise reports all errors in its
/// keys and the overrides at once, one line each, as in "x.yaml:12:3: unknown key
/// 'model.num_layer'; did you mean 'model.num_layers'?". validate() checks keys against each
/// other and against the number of ranks.
///
/// Derived keys without a value are listed in RunConfig::automatic; so are, with checkpoint.from,
/// all keys of the model without a value. run.dir is derived from the file's name.
RunConfig load_config(const std::filesystem::path& path,
                      std::span<const std::string> overrides = {});

/// Like load_config, for YAML text that messages call `name`. It cannot include files.
RunConfig parse_config(std::string_view name, std::string_view yaml,
                       std::span<const std::string> overrides = {});

/// The defaults with the overrides: a configuration without a file, whose required keys may be
/// missing.
RunConfig load_overrides(std::span<const std::string> overrides);

/// Sets keys of `config`, which are then no longer automatic. Throws like load_config.
void apply_overrides(RunConfig& config, std::span<const std::string> overrides);

}  // namespace tessera
