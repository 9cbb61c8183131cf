#include "launch/config/write_config.h"

#include "core/error.h"
#include "launch/config/schema.h"

namespace tessera {
namespace {

struct KeyWriter {
  std::string& yaml;
  std::string section = {};
  const RunConfig* config = nullptr;
  const KeyOrigins* origins = nullptr;

  template <typename Rule>
  void operator()(Key key, const typename Rule::Value& value, const Rule& rule, std::string_view) {
    const std::string name = fmt::format("{}.{}", section, key.name);
    const bool automatic = config != nullptr && config->automatic.contains(name);
    if (automatic && !key.derived) {
      yaml += fmt::format("  # {}: {}\n", key.name,
                          config->checkpoint.from ? "that of checkpoint.from" : "derived");
      return;
    }
    yaml += fmt::format("  {}: {}{}\n", key.name, automatic ? "auto" : rule.write(value),
                        comment(name));
  }

  std::string comment(const std::string& name) const {
    if (origins == nullptr || !origins->contains(name)) return "";
    return "  # " + origins->at(name);
  }
};

struct SectionWriter {
  const RunConfig& config;
  const KeyOrigins& origins;
  std::string yaml = {};

  void operator()(std::string_view name, const auto& section, std::string_view) {
    yaml += fmt::format("{}:\n", name);
    KeyWriter writer{yaml, std::string(name), &config, &origins};
    describe(section, writer);
  }
};

}  // namespace

std::string to_yaml(const RunConfig& config, const KeyOrigins& origins) {
  SectionWriter writer{config, origins};
  describe(config, writer);
  return writer.yaml;
}

std::string to_yaml(const ModelConfig& model) {
  std::string yaml;
  KeyWriter writer{yaml};
  describe(model, writer);
  return yaml;
}

}  // namespace tessera
