#include "launch/config/label_names.h"

#include <algorithm>
#include <set>

#include "launch/config/values/value_rule.h"
#include "launch/support/text/json.h"

namespace tessera {

std::vector<std::string> label_names(std::string_view labels) {
  std::vector<std::string> names;
  while (true) {
    const size_t comma = labels.find(',');
    std::string_view name = labels.substr(0, comma);
    const size_t begin = std::min(name.find_first_not_of(' '), name.size());
    name.remove_prefix(begin);
    name = name.substr(0, name.find_last_not_of(' ') + 1);
    names.emplace_back(name);
    if (comma == std::string_view::npos) return names;
    labels.remove_prefix(comma + 1);
  }
}

std::vector<std::string> names_of_labels(const std::optional<std::string>& labels) {
  return labels ? label_names(*labels) : std::vector<std::string>{};
}

std::optional<std::string> label_problem(const std::vector<std::string>& names) {
  const std::set<std::string> different(names.begin(), names.end());
  if (different.size() != names.size() || different.count("") == 1) {
    return "label names must be different and not empty";
  }
  for (const std::string& name : names) {
    if (!Text{}.accepts(name) || label_names(name) != std::vector{name}) {
      return fmt::format(
          "{} has a comma, a control character, or a space at an end, which no name may have",
          quote(name));
    }
  }
  return std::nullopt;
}

}  // namespace tessera
