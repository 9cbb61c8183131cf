#include "launch/config/label_names.h"

#include <algorithm>

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

}  // namespace tessera
