#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launch/config/source_text.h"

namespace tessera {

/// What is wrong with a configuration: collected, so that one look shows all of it.
class ConfigIssues {
 public:
  void add(const SourceText& source, TextPosition position, const std::string& message);

  /// A message that says itself where.
  void add(std::string message);

  /// Puts what was added since the last call into the order of the text.
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
