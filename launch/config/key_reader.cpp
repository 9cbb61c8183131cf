#include "launch/config/key_reader.h"

#include "launch/config/schema_list.h"

namespace tessera {
namespace {

std::string quoted_or_nothing(const std::string& best) {
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<std::string> key_names(std::string_view section) {
  std::vector<std::string> names;
  for (const SectionInfo& info : config_sections()) {
    if (info.name != section) continue;
    for (const KeyInfo& key : info.keys) names.push_back(key.name);
  }
  return names;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const SectionInfo& info : config_sections()) names.push_back(info.name);
  return names;
}

/// The full name of a key written in the wrong section, or "".
std::string same_key_elsewhere(std::string_view key) {
  for (const SectionInfo& info : config_sections()) {
    for (const KeyInfo& other : info.keys) {
      if (other.name == key) return info.name + "." + other.name;
    }
  }
  return "";
}

std::string unknown_key(std::string_view section, const std::string& key) {
  const std::vector<std::string> names = key_names(section);
  const std::string near = nearest(key, names);
  const std::string best =
      near.empty() ? same_key_elsewhere(key) : fmt::format("{}.{}", section, near);
  return fmt::format("unknown key '{}.{}'{} Keys of '{}' are: {}", section, excerpt(key),
                     best.empty() ? "." : quoted_or_nothing(best), section, joined(names));
}

std::string unknown_section(const std::string& name) {
  const std::vector<std::string> names = section_names();
  const std::string near = nearest(name, names);
  const std::string best = near.empty() ? same_key_elsewhere(name) : near;
  return fmt::format("unknown section '{}'{} Sections are: {}", excerpt(name),
                     best.empty() ? "." : quoted_or_nothing(best), joined(names));
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
    issues_.add(source_, entry.position,
                section_.empty() ? unknown_section(key) : unknown_key(section_, key));
  }
}

void SectionReader::report_not_a_section(std::string_view name, const KeyedMap::Entry& entry) {
  const bool empty = entry.value->kind == ConfigValue::Kind::null;
  issues_.add(source_, entry.position,
              fmt::format("the section '{}' {}; its keys are: {}", name,
                          empty ? "is empty: give it keys or leave it out"
                                : "must be a map of keys, each on an indented line",
                          joined(key_names(name))));
}

}  // namespace tessera
