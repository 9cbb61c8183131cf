#include "launch/config/model_kinds.h"

#include <fmt/ranges.h>

namespace tessera {

std::vector<std::pair<std::string_view, ModelKind>> model_kinds() {
  std::vector<std::pair<std::string_view, ModelKind>> kinds;
  for (const Architecture& architecture : architectures()) {
    kinds.push_back({architecture.name, architecture.kind});
  }
  return kinds;
}

std::string model_kind_summaries() {
  std::vector<std::string> summaries;
  for (const Architecture& architecture : architectures()) {
    summaries.push_back(fmt::format("`{}` is {}", architecture.name, architecture.summary));
  }
  return fmt::format("{}", fmt::join(summaries, "; "));
}

std::string kinds_with(bool Architecture::*has, std::string_view quote) {
  std::vector<std::string> names;
  for (const Architecture& architecture : architectures()) {
    if (!(architecture.*has)) continue;
    names.push_back(fmt::format("{}{}{}", quote, architecture.name, quote));
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

}  // namespace tessera
