#include "launch/config/load_config.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/exit_code.h"
#include "launch/config/key_reader.h"
#include "launch/config/schema_list.h"
#include "launch/config/values/config_issues.h"
#include "launch/support/files/folders.h"
#include "launch/support/text/json.h"
#include "models/architecture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kInclude = "include";

/// Returns the text before the first ". " or "; ".
std::string_view first_clause(std::string_view text) {
  return text.substr(0, std::min(text.find(". "), text.find("; ")));
}

/// Reads sources one after the other into the same configuration.
class Loader {
 public:
  /// Starts from the defaults; a source that gives model.kind also sets what depends on it, except
  /// keys that were given before.
  Loader() = default;
  /// Starts from a complete configuration: each source changes its own keys alone.
  explicit Loader(RunConfig config) : config_(std::move(config)), is_complete_(true) {}

  /// `file` is the path of the source; without it, as for a text that is no file, the source may
  /// include none.
  void read_file(const SourceText& source, const std::optional<fs::path>& file) {
    ConfigValue root = read_yaml(source);
    require(root.kind != ConfigValue::Kind::null,
            "{}: the configuration is empty; docs/configuration.md lists its keys", source.name);
    require(root.kind == ConfigValue::Kind::map,
            "{}: a configuration is a map of sections, as in 'run:' and below it '  dir: runs/a'",
            source.at(root.position));
    std::optional<ConfigValue> included = take_key(root, kInclude);
    if (included && !file) {
      issues_.add(source, included->position, "only a file can include others");
    } else if (included) {
      including_.push_back(fs::weakly_canonical(*file));
      if (included->kind != ConfigValue::Kind::list) included = list_of(*std::move(included));
      for (const ConfigValue& name : included->items) include(source, name, *file);
      including_.pop_back();
    }
    if (!root.keys.empty() || !included) read(source, root);
  }

  void read_override(const std::string& text) {
    SourceText source{fmt::format("--set {}", excerpt(text, 200)), "", false};
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      issues_.add(source, {}, "must have the form section.key=value, as in optimizer.lr=0.001");
      return;
    }
    source.text = text.substr(equals + 1);
    try {
      const std::string name = text.substr(0, equals);
      const size_t dot = std::min(name.find('.'), name.size());
      ConfigValue node = read_yaml(source);
      if (dot < name.size()) node = map_of(name.substr(dot + 1), std::move(node));
      read(source, map_of(name.substr(0, dot), std::move(node)));
    } catch (const Error& error) {  // the value is not YAML
      issues_.add(error.what());
    }
  }

  /// Reports required keys that are missing.
  void require_keys(const SourceText& file) {
    for (const SectionInfo& section : config_sections()) {
      for (const KeyInfo& key : section.keys) {
        if (!key.required || given_.contains(key.full_name) || has_alternative(section, key)) {
          continue;
        }
        issues_.add(
            file, {},
            fmt::format("the key '{}' is missing and has no default: {}{}", key.full_name,
                        first_clause(key.meaning),
                        key.alternative.empty() ? ""
                                                : fmt::format("; set it, or '{}.{}' instead",
                                                              section.name, key.alternative)));
      }
    }
  }

  /// The configuration of sources that give it all of its values.
  RunConfig finish() {
    issues_.throw_if_any();
    for (const SectionInfo& section : config_sections()) {
      const bool from_checkpoint = section.name == "model" && config_.checkpoint.from;
      for (const KeyInfo& key : section.keys) {
        const bool derived = key.required ? has_alternative(section, key) : key.derived;
        if (derived || from_checkpoint) config_.automatic.insert(key.full_name);
      }
    }
    if (config_.model.has_images()) config_.automatic.insert("model.seq_length");
    return finish_changes();
  }

  /// The configuration with the values of the sources.
  RunConfig finish_changes() {
    issues_.throw_if_any();
    for (const std::string& name : given_) config_.automatic.erase(name);
    return std::move(config_);
  }

 private:
  bool has_alternative(const SectionInfo& section, const KeyInfo& key) const {
    return !key.alternative.empty() && given_.contains(section.name + "." + key.alternative);
  }

  /// Reads the file that `name`, in the file at `path`, includes.
  void include(const SourceText& source, const ConfigValue& name, const fs::path& path) {
    if (name.kind != ConfigValue::Kind::scalar || name.text.empty()) {
      issues_.add(source, name.position,
                  "include must be a file, or a list of files, relative to this one's folder");
      return;
    }
    const fs::path file = path.parent_path() / name.text;
    const fs::path real = fs::weakly_canonical(file);
    if (std::ranges::find(including_, real) != including_.end()) {
      issues_.add(source, name.position, fmt::format("{} includes itself", quote(file.string())));
      return;
    }
    try {
      read_file(read_config_file(file), file);
    } catch (const Error& error) {
      issues_.add(source, name.position, fmt::format("included here: {}", error.what()));
    }
  }

  /// Removes a key from a map and returns its value.
  static std::optional<ConfigValue> take_key(ConfigValue& map, std::string_view key) {
    for (size_t i = 0; i < map.keys.size(); ++i) {
      if (map.keys[i].text != key) continue;
      ConfigValue value = std::move(map.items[i]);
      value.position = map.keys[i].position;
      map.keys.erase(map.keys.begin() + static_cast<std::ptrdiff_t>(i));
      map.items.erase(map.items.begin() + static_cast<std::ptrdiff_t>(i));
      return value;
    }
    return std::nullopt;
  }

  static ConfigValue list_of(ConfigValue value) {
    ConfigValue list;
    list.kind = ConfigValue::Kind::list;
    list.items.push_back(std::move(value));
    return list;
  }

  /// A configuration must not depend on the environment of a rank.
  void refuse_variables(const SourceText& source, const ConfigValue& value) {
    const size_t begin = value.text.find("${");
    if (value.kind == ConfigValue::Kind::scalar && begin != std::string::npos) {
      issues_.add(source, value.position,
                  fmt::format("{}: variables of the environment are not replaced: write the value, "
                              "or let the shell replace it, as in --set \"run.dir=$HOME/run\"",
                              quote(value.text)));
    }
    if (value.kind == ConfigValue::Kind::scalar && names_home(value.text)) {
      issues_.add(source, value.position, home_advice(value.text));
    }
    for (const ConfigValue& key : value.keys) refuse_variables(source, key);
    for (const ConfigValue& item : value.items) refuse_variables(source, item);
  }

  void read(const SourceText& source, const ConfigValue& root) {
    refuse_variables(source, root);
    read_keys(source, root, issues_, given_, config_);
    issues_.sort_since_last();
    if (!is_complete_) apply_preset();
  }

  void apply_preset() {
    RunConfig defaults;
    defaults.model = preset(config_.model.kind);
    for (const KeyInfo& key : model_keys()) {
      if (key.by_kind && !given_.contains("model." + key.name)) key.access->copy(defaults, config_);
    }
  }

  static ConfigValue map_of(std::string key, ConfigValue value) {
    ConfigValue map;
    map.kind = ConfigValue::Kind::map;
    ConfigValue& name = map.keys.emplace_back();
    name.kind = ConfigValue::Kind::scalar;
    name.text = std::move(key);
    map.items.push_back(std::move(value));
    return map;
  }

  RunConfig config_;
  bool is_complete_ = false;
  ConfigIssues issues_;
  std::set<std::string> given_;
  std::vector<fs::path> including_;  // the files that are being read, outermost first
};

RunConfig load(const SourceText& file, const std::optional<fs::path>& path,
               std::span<const std::string> overrides) {
  Loader loader;
  loader.read_file(file, path);
  for (const std::string& text : overrides) loader.read_override(text);
  loader.require_keys(file);
  RunConfig config = loader.finish();
  if (config.automatic.erase("run.dir") > 0) {
    config.run.dir = "runs/" + std::filesystem::path(file.name).stem().string();
  }
  return config;
}

}  // namespace

RunConfig load_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return with_exit_code(ExitCode::configuration,
                        [&] { return load(read_config_file(path), path, overrides); });
}

RunConfig parse_config(std::string_view name, std::string_view yaml,
                       std::span<const std::string> overrides) {
  return load(SourceText{std::string(name), std::string(yaml)}, std::nullopt, overrides);
}

RunConfig load_overrides(std::span<const std::string> overrides) {
  Loader loader;
  for (const std::string& text : overrides) loader.read_override(text);
  return loader.finish();
}

void apply_overrides(RunConfig& config, std::span<const std::string> overrides) {
  Loader loader(std::move(config));
  for (const std::string& text : overrides) loader.read_override(text);
  config = loader.finish_changes();
}

}  // namespace tessera
