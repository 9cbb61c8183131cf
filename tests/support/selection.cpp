#include "tests/support/selection.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace tessera::test {
namespace {

std::vector<std::string> names_of_tests() {
  std::vector<std::string> names;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      names.push_back(fmt::format("{}.{}", suite.name(), suite.GetTestInfo(j)->name()));
    }
  }
  return names;
}

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

int64_t expected_tests(int argc, char** argv) {
  constexpr std::string_view kOption = "--at_least=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kOption.size()) == kOption) {
      return std::atoll(argv[i] + kOption.size());
    }
  }
  return 0;
}

}  // namespace

std::optional<std::string> problem_of_selection(int argc, char** argv) {
  // "A:B-C:D" matches A or B, but neither C nor D.
  const std::string filter = ::testing::GTEST_FLAG(filter);
  const size_t dash = std::min(filter.find('-'), filter.size());
  std::vector<std::string> chosen = split(filter.substr(0, dash), ':');
  if (chosen.empty()) chosen = {"*"};
  const std::vector<std::string> excluded =
      split(dash < filter.size() ? filter.substr(dash + 1) : "", ':');

  const std::vector<std::string> names = names_of_tests();
  for (const auto& patterns : {chosen, excluded}) {
    for (const std::string& pattern : patterns) {
      const bool found = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return matches(pattern, name);
      });
      if (!found) return fmt::format("no test matches {} of --gtest_filter={}", pattern, filter);
    }
  }
  const auto count = std::count_if(names.begin(), names.end(), [&](const std::string& name) {
    return matches_any(chosen, name) && !matches_any(excluded, name);
  });
  const int64_t expected = expected_tests(argc, argv);
  if (count >= expected) return std::nullopt;
  return fmt::format(
      "--gtest_filter={} matches {} tests, but this run is registered for {} or more: if tests "
      "were removed on purpose, change the number in tests/CMakeLists.txt",
      filter, count, expected);
}

}  // namespace tessera::test
