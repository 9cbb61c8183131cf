#include "launch/config/key_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "launch/config/key_advice.h"
#include "launch/config/schema_list.h"

namespace tessera {
namespace {

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

void SectionReader::report_not_a_section(std::string_view name, const KeyedMap::Entry& entry) {
  const bool empty = entry.value->kind == ConfigValue::Kind::null;
  issues_.add(source_, entry.position,
              fmt::format("the section '{}' {}; its keys are: {}", name,
                          empty ? "is empty: give it keys or leave it out"
                                : "must be a map of keys, each on an indented line",
                          fmt::join(key_names(name), ", ")));
}

}  // namespace tessera
