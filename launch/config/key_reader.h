#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launch/config/run_config.h"
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

/// Reads all sections and keys of a map of maps into `config`. `given` collects the full names of
/// the keys that were present, valid or not.
void read_keys(const SourceText& source, const ConfigValue& root, ConfigIssues& issues,
               std::set<std::string>& given, RunConfig& config);

}  // namespace tessera
