#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "launch/support/input/input_files.h"

namespace CLI {
class App;
}

namespace tessera {

/// Accepts one of `words`, and sets `value` to the one of its place.
template <typename Enum, size_t N>
std::function<std::string(const std::string&)> set_from(
    const std::array<std::string_view, N>& words, Enum& value) {
  return [&words, &value](const std::string& text) -> std::string {
    const auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end()) {
      return fmt::format("'{}' is none of: {}", text, fmt::join(words, ", "));
    }
    value = static_cast<Enum>(found - words.begin());
    return "";
  };
}

/// Adds the options of the commands that read text: --input, --format, --field, --skip-malformed.
void add_input_options(CLI::App& command, InputOptions& options);

}  // namespace tessera
