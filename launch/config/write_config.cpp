#include "launch/config/write_config.h"

#include <algorithm>

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

/// Comment lines of at most 100 characters.
std::string comment_lines(std::string_view text, std::string_view indent) {
  constexpr size_t kWidth = 100;
  const auto next_word = [&] { return text.substr(0, text.find(' ')); };
  std::string lines;
  while (!text.empty()) {
    std::string line = fmt::format("{}#", indent);
    do {
      const std::string_view word = next_word();
      line.append(" ").append(word);
      text.remove_prefix(std::min(text.size(), word.size() + 1));
    } while (!text.empty() && line.size() + 1 + next_word().size() <= kWidth);
    lines += line + "\n";
  }
  return lines;
}

struct CommentedKeyWriter {
  std::string_view section;
  const KeyOrigins& reasons;
  std::string yaml = {};

  template <typename Rule>
  void operator()(Key key, const typename Rule::Value& value, const Rule& rule, std::string_view) {
    const auto reason = reasons.find(fmt::format("{}.{}", section, key.name));
    if (reason == reasons.end()) return;
    yaml += comment_lines(reason->second, "  ");
    yaml += fmt::format("  {}: {}\n", key.name, rule.write(value));
  }
};

struct CommentedSectionWriter {
  const KeyOrigins& reasons;
  std::string yaml = {};

  void operator()(std::string_view name, const auto& section, std::string_view) {
    CommentedKeyWriter writer{name, reasons};
    describe(section, writer);
    if (writer.yaml.empty()) return;
    yaml += fmt::format("{}{}:\n{}", yaml.empty() ? "" : "\n", name, writer.yaml);
  }
};

}  // namespace

std::string to_yaml(const RunConfig& config, const KeyOrigins& origins) {
  SectionWriter writer{config, origins};
  describe(config, writer);
  return writer.yaml;
}

std::string to_commented_yaml(const RunConfig& config, const KeyOrigins& reasons) {
  CommentedSectionWriter writer{reasons};
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
