#include "launch/config/values/config_issues.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/error.h"

namespace tessera {

void ConfigIssues::add(const SourceText& source, TextPosition position,
                       const std::string& message) {
  issues_.push_back({position, source.at(position) + ": " + message});
}

void ConfigIssues::add(std::string message) { issues_.push_back({{}, std::move(message)}); }

void ConfigIssues::sort_since_last() {
  const auto in_text_order = [](const Issue& a, const Issue& b) {
    return std::tie(a.position.line, a.position.column) <
           std::tie(b.position.line, b.position.column);
  };
  std::stable_sort(issues_.begin() + static_cast<std::ptrdiff_t>(sorted_), issues_.end(),
                   in_text_order);
  sorted_ = issues_.size();
}

void ConfigIssues::throw_if_any() const {
  constexpr size_t kMostShown = 20;
  if (issues_.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(issues_.size(), kMostShown); ++i) {
    text += (i == 0 ? "" : "\n") + issues_[i].message;
  }
  if (issues_.size() > kMostShown) {
    text += fmt::format("\nand {} more errors", issues_.size() - kMostShown);
  }
  throw Error(text);
}

}  // namespace tessera
