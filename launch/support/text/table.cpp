#include "launch/support/text/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<size_t>& right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool to_right = std::find(right.begin(), right.end(), i) != right.end();
      line += to_right ? fmt::format("  {:>{}}", row[i], widths[i])
                       : fmt::format("  {:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

bool in_natural_order(std::string_view a, std::string_view b) {
  const auto digits = [](std::string_view text) {
    return std::min(text.find_first_not_of("0123456789"), text.size());
  };
  while (!a.empty() && !b.empty()) {
    const size_t digits_of_a = digits(a), digits_of_b = digits(b);
    const bool numbers = digits_of_a > 0 && digits_of_b > 0;
    // The longer number is larger, unless it has leading zeros, which names do not have.
    if (numbers && digits_of_a != digits_of_b) return digits_of_a < digits_of_b;
    const size_t step = numbers ? digits_of_a : 1;
    if (const int order = a.substr(0, step).compare(b.substr(0, step)); order != 0) {
      return order < 0;
    }
    a.remove_prefix(step);
    b.remove_prefix(step);
  }
  return a.size() < b.size();
}

std::string description_line(const std::string& name, const std::string& value) {
  return fmt::format("{:<11}{}\n", name, value);
}

}  // namespace tessera
