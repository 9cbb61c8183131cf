#include "launch/config/config_changes.h"

#include "core/error.h"
#include "launch/config/schema.h"

namespace tessera {
namespace {

struct KeyCollector {
  std::string_view section;
  const RunConfig& config;
  std::vector<NamedValue>& keys;

  template <typename Rule>
  void operator()(Key key, const typename Rule::Value& value, const Rule& rule, std::string_view) {
    const std::string name = fmt::format("{}.{}", section, key.name);
    keys.push_back({name, config.automatic.contains(name) ? "auto" : rule.write(value)});
  }
};

struct SectionCollector {
  const RunConfig& config;
  std::vector<NamedValue> keys = {};

  void operator()(std::string_view name, const auto& section, std::string_view) {
    KeyCollector collector{name, config, keys};
    describe(section, collector);
  }
};

}  // namespace

std::vector<NamedValue> config_values(const RunConfig& config) {
  SectionCollector collector{config};
  describe(config, collector);
  return collector.keys;
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
