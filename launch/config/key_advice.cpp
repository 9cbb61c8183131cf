#include "launch/config/key_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

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

/// "section.key" of all keys.
KeyNames full_names() {
  KeyNames names;
  for (const SectionInfo& info : config_sections()) {
    for (const KeyInfo& key : info.keys) names.push_back(key.full_name);
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
      if (key.name == name) names.push_back(key.full_name);
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

}  // namespace

std::string as_key(std::string_view word) {
  std::string name(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  for (char& c : name) {
    if (c == '-') c = '_';
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return name;
}

bool is_config_key(std::string_view word) {
  return std::ranges::count(full_names(), as_key(word)) > 0;
}

std::string allowed_values(std::string_view key) {
  for (const SectionInfo& info : config_sections()) {
    for (const KeyInfo& each : info.keys) {
      if (each.full_name == key) return each.allowed;
    }
  }
  return "";
}

KeyAdvice advice_for(std::string_view word) {
  const std::string name = as_key(word);
  if (is_config_key(name)) return {{name}};
  if (name.find('.') != std::string::npos) return {nearest(name, full_names(), 1), "", true};
  if (const KeyNames same = keys_called(name); !same.empty()) return {same};
  if (const ForeignKey* foreign = find_foreign_key(name)) {
    if (foreign->key.empty()) return {{}, foreign->text()};
    return {{std::string(foreign->key)}, std::string(foreign->remark)};
  }
  return {keys_near(name), "", true};
}

std::string unknown_key_advice(std::string_view section, std::string_view word) {
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

}  // namespace tessera
