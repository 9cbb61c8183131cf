#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "launch/config/schema.h"
#include "launch/config/values/config_issues.h"
#include "launch/config/values/yaml_reader.h"

namespace tessera {

/// A YAML map from which known keys are taken one by one. Duplicate and untaken keys become issues.
class KeyedMap {
 public:
  struct Entry {
    TextPosition position;  ///< of the key
    const ConfigValue* value = nullptr;
  };

  /// `section` is the map's name, or "" for the whole file. All arguments must outlive this.
  KeyedMap(const SourceText& source, std::string_view section, const ConfigValue& map,
           ConfigIssues& issues);

  /// Null if the key is missing.
  const Entry* take(std::string_view key);

  void report_unknown() const;

 private:
  const SourceText& source_;
  std::string section_;
  ConfigIssues& issues_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::set<std::string, std::less<>> taken_;
};

/// Visits the keys of a section and fills it from a map.
class KeyReader {
 public:
  /// `given` collects the full names of the keys that were present, valid or not.
  KeyReader(const SourceText& source, std::string_view section, const ConfigValue& map,
            ConfigIssues& issues, std::set<std::string>& given)
      : source_(source),
        section_(section),
        map_(source, section, map, issues),
        issues_(issues),
        given_(given) {}

  template <typename Rule>
  void operator()(Key key, typename Rule::Value& value, const Rule& rule, std::string_view) {
    const KeyedMap::Entry* entry = map_.take(key.name);
    if (entry == nullptr) return;
    const std::string name = section_ + "." + std::string(key.name);
    if (key.derived && entry->value->is_word("auto")) {
      given_.erase(name);
      value = {};
      return;
    }
    given_.insert(name);
    try {
      value = rule.read(*entry->value);
    } catch (const ErrorInside& error) {
      issues_.add(source_, error.position, name + " " + error.what());
    } catch (const Error& error) {
      issues_.add(source_, entry->position, name + " " + error.what());
    }
  }

  void report_unknown() const { map_.report_unknown(); }

 private:
  const SourceText& source_;
  std::string section_;
  KeyedMap map_;
  ConfigIssues& issues_;
  std::set<std::string>& given_;
};

/// Visits the sections of a configuration and fills them from a map of maps.
class SectionReader {
 public:
  SectionReader(const SourceText& source, const ConfigValue& root, ConfigIssues& issues,
                std::set<std::string>& given)
      : source_(source), map_(source, "", root, issues), issues_(issues), given_(given) {}

  void operator()(std::string_view name, auto& section, std::string_view) {
    const KeyedMap::Entry* entry = map_.take(name);
    if (entry == nullptr) return;
    if (entry->value->kind != ConfigValue::Kind::map) {
      report_not_a_section(name, *entry);
      return;
    }
    KeyReader reader(source_, name, *entry->value, issues_, given_);
    describe(section, reader);
    reader.report_unknown();
  }

  void report_unknown() const { map_.report_unknown(); }

 private:
  void report_not_a_section(std::string_view name, const KeyedMap::Entry& entry);

  const SourceText& source_;
  KeyedMap map_;
  ConfigIssues& issues_;
  std::set<std::string>& given_;
};

}  // namespace tessera
