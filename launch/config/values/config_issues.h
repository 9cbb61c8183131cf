#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launch/config/values/source_text.h"

namespace tessera {

/// Collects the errors of a configuration, so that all are shown at once.
class ConfigIssues {
 public:
  void add(const SourceText& source, TextPosition position, const std::string& message);

  /// Adds a message that already contains its location.
  void add(std::string message);

  /// Sorts the issues added since the last call by their position in the text.
  void sort_since_last();

  /// Throws Error with a line for each issue, if there are any.
  void throw_if_any() const;

 private:
  struct Issue {
    TextPosition position;
    std::string message;
  };
  std::vector<Issue> issues_;
  size_t sorted_ = 0;
};

}  // namespace tessera
