#include "launch/config/schema_list.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "launch/config/schema.h"

namespace tessera {
namespace {

template <typename Rule>
std::vector<std::string> words_of(const Rule& rule) {
  std::vector<std::string> words;
  if constexpr (std::is_same_v<Rule, TrueOrFalse>) words = {"true", "false"};
  if constexpr (requires { rule.choices; }) {
    for (const auto& choice : rule.choices) words.emplace_back(choice.first);
  }
  return words;
}

struct KeyLister {
  std::vector<KeyInfo>& keys;

  template <typename Rule>
  void operator()(Key key, const typename Rule::Value& value, const Rule& rule,
                  std::string_view meaning) {
    keys.push_back({std::string(key.name), key.required, key.derived, key.by_kind,
                    std::string(key.alternative), rule.allowed() + (key.derived ? ", or auto" : ""),
                    rule.write(value), std::string(meaning), words_of(rule)});
    if (key.derived && !keys.back().words.empty()) keys.back().words.emplace_back("auto");
  }
};

struct SectionLister {
  std::vector<SectionInfo> sections;

  void operator()(std::string_view name, const auto& section, std::string_view meaning) {
    SectionInfo& info = sections.emplace_back();
    info.name = name;
    info.meaning = meaning;
    KeyLister lister{info.keys};
    describe(section, lister);
  }
};

/// The restricted Damerau-Levenshtein distance ("optimal string alignment").
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

const std::vector<SectionInfo>& config_sections() {
  static const std::vector<SectionInfo> sections = [] {
    SectionLister lister;
    const RunConfig defaults;
    describe(defaults, lister);
    return lister.sections;
  }();
  return sections;
}

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates,
                                 size_t most) {
  constexpr size_t kLongest = 64;  // keys are much shorter
  if (word.size() > kLongest) return {};
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    // Larger distances mean a different word.
    if (distance < word.size() / 3 + 2 && distance < candidate.size()) {
      near.emplace_back(distance, candidate);
    }
  }
  std::ranges::stable_sort(near, {}, &decltype(near)::value_type::first);
  std::vector<std::string> names;
  for (auto& [distance, candidate] : near) {
    if (names.size() == most || distance > near.front().first + 1) break;
    names.push_back(std::move(candidate));
  }
  return names;
}

}  // namespace tessera
