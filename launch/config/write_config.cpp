#include "launch/config/write_config.h"

#include "core/error.h"
#include "launch/config/schema.h"

namespace tessera {
namespace {

struct KeyWriter {
  std::string& yaml;

  template <typename Rule>
  void operator()(Key key, const typename Rule::Value& value, const Rule& rule, std::string_view) {
    yaml += fmt::format("  {}: {}\n", key.name, rule.write(value));
  }
};

struct SectionWriter {
  std::string yaml;

  void operator()(std::string_view name, const auto& section, std::string_view) {
    yaml += fmt::format("{}:\n", name);
    KeyWriter writer{yaml};
    describe(section, writer);
  }
};

}  // namespace

std::string to_yaml(const RunConfig& config) {
  SectionWriter writer;
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
