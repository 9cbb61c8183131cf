#include "launch/config/key_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "launch/config/foreign_keys.h"
#include "launch/config/schema_list.h"

namespace tessera {
namespace {

using KeyNames = std::vector<std::string>;

constexpr size_t kMostSuggestions = 3;

KeyNames key_names(std::string_view section) {
  KeyNames names;
  for (const SectionInfo& info : config_sections()) {
    if (info.name != section) continue;
    for (const KeyInfo& key : info.keys) names.push_back(key.name);
  }
  return names;
}

KeyNames section_names() {
  KeyNames names;
  for (const SectionInfo& info : config_sections()) names.push_back(info.name);
  return names;
}

/// The full names of the keys with this name, one for each section that has it.
KeyNames keys_called(std::string_view name) {
  KeyNames names;
  for (const SectionInfo& info : config_sections()) {
    for (const KeyInfo& key : info.keys) {
      if (key.name == name) names.push_back(info.name + "." + key.name);
    }
  }
  return names;
}

/// The full names of the keys of any section that `name` may misspell.
KeyNames keys_near(const std::string& name) {
  std::set<std::string> candidates;
  for (const std::string& section : section_names()) {
    for (std::string& key : key_names(section)) candidates.insert(std::move(key));
  }
  KeyNames names;
  for (const std::string& key :
       nearest(name, {candidates.begin(), candidates.end()}, kMostSuggestions)) {
    for (std::string& full : keys_called(key)) names.push_back(std::move(full));
  }
  if (names.size() > kMostSuggestions) names.resize(kMostSuggestions);
  return names;
}

std::string suggestion(const KeyNames& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    text += "'" + names[i] + "'";
  }
  return fmt::format("did you mean {}?", text);
}

/// Lower case with underscores, so that --num-layers is num_layers.
std::string as_key(std::string_view word) {
  std::string name(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  for (char& c : name) {
    if (c == '-') c = '_';
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return name;
}

/// What to write instead of an unknown key of `section`, or of an unknown word at the top level if
/// `section` is "".
std::string advice(std::string_view section, std::string_view word) {
  const std::string name = as_key(word);
  if (const KeyNames same = keys_called(name); !same.empty()) return suggestion(same);
  if (const ForeignKey* foreign = find_foreign_key(name)) return foreign->text();
  KeyNames near =
      nearest(name, section.empty() ? section_names() : key_names(section), kMostSuggestions);
  if (near.empty()) {
    near = keys_near(name);
  } else if (!section.empty()) {
    for (std::string& key : near) key = fmt::format("{}.{}", section, key);
  }
  if (!near.empty()) return suggestion(near);
  if (!section.empty()) return "`tessera config --markdown` lists all keys";
  return fmt::format("the sections are {}", fmt::join(section_names(), ", "));
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
    issues_.add(
        source_, entry.position,
        fmt::format("unknown {} '{}'; {}",
                    top_level && may_be_section(*entry.value) ? "section" : "key",
                    excerpt(top_level ? key : section_ + "." + key), advice(section_, key)));
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
