#include "launch/config/key_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "launch/config/key_advice.h"
#include "launch/config/schema_list.h"
#include "launch/config/values/value_rule.h"

namespace tessera {
namespace {

std::string not_a_section(const SectionInfo& section, const ConfigValue& found) {
  std::vector<std::string> names;
  for (const KeyInfo& key : section.keys) names.push_back(key.name);
  return fmt::format("the section '{}' {}; its keys are: {}", section.name,
                     found.kind == ConfigValue::Kind::null
                         ? "is empty: give it keys or leave it out"
                         : "must be a map of keys, each on an indented line",
                     fmt::join(names, ", "));
}

bool may_be_section(const ConfigValue& value) {
  return value.kind == ConfigValue::Kind::map || value.kind == ConfigValue::Kind::null;
}

}  // namespace

KeyedMap::KeyedMap(const SourceText& source, std::string_view section, const ConfigValue& map,
                   ConfigIssues& issues)
    : source_(source), section_(section), issues_(issues) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    const ConfigValue& key = map.keys[i];
    const auto [entry, is_new] = entries_.try_emplace(key.text, Entry{key.position, &map.items[i]});
    if (is_new) continue;
    const std::string name = section_.empty() ? key.text : section_ + "." + key.text;
    issues_.add(source_, key.position,
                fmt::format("'{}' is given twice, first on line {}; remove one", excerpt(name),
                            entry->second.position.line));
  }
}

const KeyedMap::Entry* KeyedMap::take(std::string_view key) {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return nullptr;
  taken_.insert(entry->first);
  return &entry->second;
}

void KeyedMap::report_unknown() const {
  for (const auto& [key, entry] : entries_) {
    if (taken_.contains(key)) continue;
    const bool top_level = section_.empty();
    issues_.add(source_, entry.position,
                fmt::format("unknown {} '{}'; {}",
                            top_level && may_be_section(*entry.value) ? "section" : "key",
                            excerpt(top_level ? key : section_ + "." + key),
                            unknown_key_advice(section_, key)));
  }
}

void read_keys(const SourceText& source, const ConfigValue& root, ConfigIssues& issues,
               std::set<std::string>& given, RunConfig& config) {
  static const RunConfig kDefaults;
  KeyedMap sections(source, "", root, issues);
  for (const SectionInfo& section : config_sections()) {
    const KeyedMap::Entry* map = sections.take(section.name);
    if (map == nullptr) continue;
    if (map->value->kind != ConfigValue::Kind::map) {
      issues.add(source, map->position, not_a_section(section, *map->value));
      continue;
    }
    KeyedMap keys(source, section.name, *map->value, issues);
    for (const KeyInfo& key : section.keys) {
      const KeyedMap::Entry* entry = keys.take(key.name);
      if (entry == nullptr) continue;
      const std::string& name = key.full_name;
      if (key.derived && entry->value->is_word("auto")) {
        given.erase(name);
        key.access->copy(kDefaults, config);
        continue;
      }
      given.insert(name);
      try {
        key.access->read(*entry->value, config);
      } catch (const ErrorInside& error) {
        issues.add(source, error.position, name + " " + error.what());
      } catch (const Error& error) {
        issues.add(source, entry->position, name + " " + error.what());
      }
    }
    keys.report_unknown();
  }
  sections.report_unknown();
}

}  // namespace tessera
