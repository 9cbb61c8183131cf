#include "launch/config/config_changes.h"

#include "core/error.h"
#include "launch/config/schema_list.h"

namespace tessera {

std::vector<NamedValue> config_values(const RunConfig& config) {
  std::vector<NamedValue> values;
  for (const SectionInfo& section : config_sections()) {
    for (const KeyInfo& key : section.keys) {
      const bool automatic = config.automatic.contains(key.full_name);
      values.push_back({key.full_name, automatic ? "auto" : key.access->write(config)});
    }
  }
  return values;
}

std::vector<std::string> config_changes(const RunConfig& before, const RunConfig& now) {
  const std::vector<NamedValue> old_keys = config_values(before), new_keys = config_values(now);
  std::vector<std::string> changes;
  for (size_t i = 0; i < new_keys.size(); ++i) {
    if (old_keys[i].value == new_keys[i].value) continue;
    changes.push_back(
        fmt::format("{}: {} -> {}", new_keys[i].name, old_keys[i].value, new_keys[i].value));
  }
  return changes;
}

}  // namespace tessera
