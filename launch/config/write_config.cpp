#include "launch/config/write_config.h"

#include <algorithm>

#include "core/error.h"
#include "launch/config/schema_list.h"

namespace tessera {
namespace {

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

}  // namespace

std::string to_yaml(const RunConfig& config, const KeyOrigins& origins) {
  std::string yaml;
  for (const SectionInfo& section : config_sections()) {
    yaml += section.name + ":\n";
    for (const KeyInfo& key : section.keys) {
      const bool automatic = config.automatic.contains(key.full_name);
      if (automatic && !key.derived) {
        yaml += fmt::format("  # {}: {}\n", key.name,
                            config.checkpoint.from ? "that of checkpoint.from" : "derived");
        continue;
      }
      const auto origin = origins.find(key.full_name);
      yaml += fmt::format("  {}: {}{}\n", key.name, automatic ? "auto" : key.access->write(config),
                          origin == origins.end() ? "" : "  # " + origin->second);
    }
  }
  return yaml;
}

std::string to_commented_yaml(const RunConfig& config, const KeyOrigins& reasons) {
  std::string yaml;
  for (const SectionInfo& section : config_sections()) {
    std::string keys;
    for (const KeyInfo& key : section.keys) {
      const auto reason = reasons.find(key.full_name);
      if (reason == reasons.end()) continue;
      keys += comment_lines(reason->second, "  ");
      keys += fmt::format("  {}: {}\n", key.name, key.access->write(config));
    }
    if (keys.empty()) continue;
    yaml += fmt::format("{}{}:\n{}", yaml.empty() ? "" : "\n", section.name, keys);
  }
  return yaml;
}

std::string to_yaml(const ModelConfig& model) {
  RunConfig config;
  config.model = model;
  std::string yaml;
  for (const KeyInfo& key : model_keys()) {
    yaml += fmt::format("  {}: {}\n", key.name, key.access->write(config));
  }
  return yaml;
}

}  // namespace tessera
